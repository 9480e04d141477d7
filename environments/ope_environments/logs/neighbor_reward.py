"""A reward model of nearest neighbors among the logged contexts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_environments.logs.decisions import LoggedDecisions
from ope_environments.populations.design import Design

__all__ = ["NeighborReward", "fit_neighbors"]

NEIGHBORS = 50


class NeighborReward:
    """The mean reward of the action among the nearest logged contexts, shrunk to its overall mean.

        q(x, a) = (sum of r_i + ridge mean_a) / (number of i + ridge),  i near x with a_i = a

    Near are the 50 logged contexts with the least distance in the standardized design.

    Parameters
    ----------
    design : of the context.
    data : the logged rows.
    action_mean : (n_actions,), mean rewards, shrunk to the overall one.
    ridge : how many rows the mean of the action counts for.
    """

    def __init__(
        self, design: Design, data: LoggedDecisions, action_mean: FloatArray, ridge: float
    ) -> None:
        from scipy.spatial import cKDTree

        self.design, self.data = design, data
        self.action_mean, self.ridge = action_mean, ridge
        self._tree = cKDTree(design(data.context))
        self._k = min(NEIGHBORS, len(data.context))

    def _near(self, context: FloatArray) -> IntArray:
        """Return the rows of the logs near each context: (k, neighbors)."""
        # The same few contexts are asked for with many actions.
        distinct, place = np.unique(np.asarray(context), axis=0, return_inverse=True)
        _, near = self._tree.query(self.design(distinct), self._k)
        found: IntArray = near.reshape(len(distinct), self._k)[place.reshape(-1)]
        return found

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the expected reward of every action: (k, n_actions)."""
        n_actions = len(self.action_mean)
        near = self._near(context)
        pair = self.data.action[near] + n_actions * np.arange(len(near))[:, None]
        size = len(near) * n_actions
        count = np.bincount(pair.reshape(-1), minlength=size)
        reward = self.data.reward[near].reshape(-1)
        total = np.bincount(pair.reshape(-1), reward, minlength=size).astype(np.float64)
        shape = (len(near), n_actions)
        return self._shrunk(total.reshape(shape), count.reshape(shape), self.action_mean)

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the expected reward of each row's action: (k,)."""
        near = self._near(context)
        same = self.data.action[near] == action[:, None]
        total = np.where(same, self.data.reward[near], 0.0).sum(axis=1)
        return self._shrunk(total, same.sum(axis=1), self.action_mean[action])

    def _shrunk(self, total: FloatArray, count: Any, mean: FloatArray) -> FloatArray:
        found: FloatArray = (total + self.ridge * mean) / (count + self.ridge)
        return found


def fit_neighbors(data: LoggedDecisions, design: Design, ridge: float) -> NeighborReward:
    """Fit the model; an action's mean is shrunk to the overall one."""
    n_actions = len(data.actions)
    count = np.bincount(data.action, minlength=n_actions)
    total = np.bincount(data.action, data.reward, minlength=n_actions)
    mean = (total + ridge * data.reward.mean()) / (count + ridge)
    return NeighborReward(design, data, mean, ridge)
