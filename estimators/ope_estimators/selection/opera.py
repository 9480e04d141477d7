"""The rule ``opera``: the mixture of estimates with the least estimated variance."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.selection.spread import Spread

__all__ = ["SIZE_EXPONENT", "mixture_weights"]

SIZE_EXPONENT = 0.8
"""Units of a resample, as a power of their number."""


def mixture_weights(spread: Spread) -> FloatArray:
    """Weights of the mixture sum_k α_k V̂_k with the least estimated variance: (k,).

        α = argmin αᵀ Â α  subject to  sum α = 1,   Â_kj = cov(V̂_k, V̂_j)

    Â is made by `covariance`: from the terms, without resamples, where all candidates have terms;
    otherwise from B resamples of s = n^0.8 of the n units, as

        Â_kj = s/n 1/(B - 1) sum_b (V̂*_kb - mean_b V̂*_kb) (V̂*_jb - mean_b V̂*_jb)

    The paper subtracts the estimates on all rows, V̂_k and V̂_j, instead of the resamples' means:
    its Â also holds the squared change of the bias from n to s units. Here Â knows no bias at
    all: a candidate with a bias and little variance is trusted. Weights may be negative where
    estimates are correlated.

    Parameters
    ----------
    spread : of the candidates; those with an infinite variance have a weight of 0.

    References
    ----------
    OPERA: automatic offline policy evaluation with re-weighted aggregates of multiple estimators
    (Nie, Chandak, Yuan, Badrinath, Flet-Berliac and Brunskill, 2024), equation 6.
    """
    usable = np.isfinite(spread.variance)
    weights = np.zeros(len(usable))
    if not usable.any():
        weights[0] = 1.0
        return weights
    matrix = spread.covariance[np.ix_(usable, usable)]
    scale = float(np.trace(matrix)) / len(matrix)
    if not scale > 0 or not np.isfinite(matrix).all():
        weights[usable] = 1.0 / usable.sum()
        return weights
    # Candidates that always agree make the matrix singular; the ridge shares the weight equally.
    solved = np.linalg.solve(matrix + 1e-9 * scale * np.eye(len(matrix)), np.ones(len(matrix)))
    weights[usable] = solved / solved.sum()
    return weights
