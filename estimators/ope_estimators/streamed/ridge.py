"""Ridge regressions of the reward from sums over rows, by fold and action."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.learning.per_action import Rotated, marginal_penalty, ridge_of

__all__ = ["coefficients"]

EPSILON = float(np.finfo(np.float64).eps)

RANK = 1e-13
"""Eigenvalues below this share of the largest one are rounding."""


def coefficients(
    gram: FloatArray,
    features: FloatArray,
    shift: FloatArray,
    *,
    alpha: float,
    separate: bool,
    shrinkage: float | None,
) -> FloatArray:
    """Return the intercept and slopes of each action: (n_actions, 1 + d).

    The model is that of `RewardModel` (or `SeparateRewardModel`) with the regressor ``ridge``:
    ridge regression on standardized features of context and action and, where ``separate``, a
    linear deviation of each action, shrunk toward it.

    Parameters
    ----------
    gram : (n_actions, 2 + d, 2 + d), the sum over each action's rows of z zᵀ with
        z = (1, x - shift_x, y - shift_y).
    features : (n_actions, d_action), of the actions.
    shift : (d + 1,), of x and of y.
    alpha : penalty of the common regression.
    separate : whether actions deviate.
    shrinkage : penalty of the deviations; None chooses it by the marginal likelihood.
    """
    rows = gram[:, 0, 0]
    n, total = float(rows.sum()), gram.sum(axis=0)
    d = gram.shape[1] - 2
    mean_x, mean_y, mean_e = total[0, 1:-1] / n, total[0, -1] / n, rows @ features / n
    apart = features - mean_e
    # Sums of squares and products of the centered columns (x, features) and of the rewards.
    of_x = total[1:-1, 1:-1] - n * np.outer(mean_x, mean_x)
    of_xe = (gram[:, 0, 1:-1] - rows[:, None] * mean_x).T @ apart
    of_e = (apart * rows[:, None]).T @ apart
    squares = np.block([[of_x, of_xe], [of_xe.T, of_e]])
    with_y = np.concatenate(
        [total[1:-1, -1] - n * mean_x * mean_y, apart.T @ (gram[:, 0, -1] - rows * mean_y)]
    )
    mean = np.concatenate([mean_x + shift[:-1], mean_e])
    variance = np.maximum(np.diag(squares) / n, 0.0)
    limit = n * EPSILON * variance + (n * mean * EPSILON) ** 2
    scale = np.where(variance <= limit, 1.0, np.sqrt(variance))
    matrix = squares / np.outer(scale, scale) + alpha * np.eye(len(scale))
    slope = np.linalg.solve(matrix, with_y / scale) / scale if len(scale) else np.zeros(0)
    found = np.empty((len(rows), 1 + d))
    found[:, 1:] = slope[:d]
    found[:, 0] = mean_y - mean_x @ slope[:d] + apart @ slope[d:]
    if separate:
        spread = np.where(variance[:d] <= limit[:d], 0.0, np.sqrt(variance[:d]))
        found += _deviations(gram, found, mean_x, spread, shrinkage)
    found[:, 0] += shift[-1] - found[:, 1:] @ shift[:-1]
    return found


def _deviations(
    gram: FloatArray,
    common: FloatArray,
    center: FloatArray,
    spread: FloatArray,
    shrinkage: float | None,
) -> FloatArray:
    """Return what `PerActionRegressor` adds to the common model: (n_actions, 1 + d)."""
    d = len(center)
    inverse = np.divide(1.0, spread, out=np.zeros(d), where=spread > 0)
    inverse /= np.sqrt(max(1, int((spread > 0).sum())))
    # phi(x) = turn (1, x): a one and the standardized context.
    turn = np.eye(1 + d)
    turn[1:, 1:] = np.diag(inverse)
    turn[1:, 0] = -center * inverse
    seen = np.flatnonzero(gram[:, 0, 0] > 0)
    residual = np.hstack([-common, np.ones((len(common), 1))])[seen]
    products = np.einsum("aij,aj->ai", gram[seen], residual)
    squares = float(np.maximum(np.einsum("ai,ai->a", products, residual), 0.0).sum())
    inner = turn @ gram[seen][:, :-1, :-1] @ turn.T
    values, vectors = np.linalg.eigh(inner)
    scores = np.einsum("apk,ap->ak", vectors, products[:, :-1] @ turn.T)
    rotated = []
    for value, axes, score in zip(values, vectors, scores, strict=True):
        kept = value > RANK * max(float(value[-1]), 0.0)
        scale = np.sqrt(value[kept])
        rotated.append(Rotated(scale, score[kept] / scale, axes[:, kept].T))
    n = float(gram[:, 0, 0].sum())
    penalty = marginal_penalty(rotated, squares, int(n)) if shrinkage is None else shrinkage
    added = np.zeros(common.shape)
    added[seen] = np.stack([ridge_of(one, penalty) for one in rotated]) @ turn
    return added
