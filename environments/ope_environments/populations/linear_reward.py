"""A linear model of mean rewards: one ridge regression for each action, shrunk to a common one."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_environments.populations.design import Design

__all__ = ["LinearReward", "fit_ridge"]


class LinearReward:
    """q(x, a) = weights_a . design(x), clipped to the range of the logged rewards.

    Parameters
    ----------
    design : of the context.
    weights : (n_actions, width)
    low, high : the range.
    """

    def __init__(self, design: Design, weights: FloatArray, low: float, high: float) -> None:
        self.design = design
        self.weights = weights
        self.low, self.high = low, high

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the expected reward of every action: (k, n_actions)."""
        table: FloatArray = np.clip(self.design(context) @ self.weights.T, self.low, self.high)
        return table

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the expected reward of each row's action: (k,)."""
        mean = np.einsum("kw,kw->k", self.design(context), self.weights[action])
        kept: FloatArray = np.clip(mean, self.low, self.high)
        return kept


def fit_ridge(
    context: FloatArray,
    action: IntArray,
    reward: FloatArray,
    *,
    n_actions: int,
    design: Design,
    ridge: float,
) -> LinearReward:
    """Fit a ridge regression on all rows, and one per action on its residuals.

    Parameters
    ----------
    context : (n, d_context)
    action : (n,), in [0, n_actions)
    reward : (n,)
    n_actions : number of actions.
    design : of the context.
    ridge : penalty of either.
    """
    rows = design(context)
    penalty = ridge * np.eye(design.width)
    common = np.linalg.solve(rows.T @ rows + penalty, rows.T @ reward)
    left = reward - rows @ common
    weights = np.tile(common, (n_actions, 1))
    order = np.argsort(action, kind="stable")
    starts = np.searchsorted(action[order], np.arange(1, n_actions))
    for k, mine in enumerate(np.split(order, starts)):
        gram = rows[mine].T @ rows[mine] + penalty
        weights[k] += np.linalg.solve(gram, rows[mine].T @ left[mine])
    return LinearReward(design, weights, float(reward.min()), float(reward.max()))
