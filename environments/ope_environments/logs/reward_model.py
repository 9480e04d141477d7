"""Reward models, fitted to logged decisions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_environments.logs.decisions import LoggedDecisions
from ope_environments.populations.design import Design
from ope_environments.populations.linear_reward import LinearReward, fit_ridge

__all__ = [
    "BoostedReward",
    "ConstantReward",
    "MeanRewardModel",
    "fit_boosted",
    "fit_constant",
    "fit_linear",
]


class MeanRewardModel(Protocol):
    """Mean rewards of contexts and actions."""

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the expected reward of every action: (k, n_actions)."""

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the expected reward of each row's action: (k,)."""


def fit_linear(data: LoggedDecisions, design: Design, ridge: float) -> LinearReward:
    """Fit a ridge regression for each action, shrunk to a common one."""
    return fit_ridge(
        data.context,
        data.action,
        data.reward,
        n_actions=len(data.actions),
        design=design,
        ridge=ridge,
    )


class BoostedReward:
    """Boosted trees on the context, the action's mean reward and its embedding.

    Parameters
    ----------
    model : a fitted regressor.
    action_features : (n_actions, width)
    low, high : the range of the logged rewards.
    """

    def __init__(self, model: Any, action_features: FloatArray, low: float, high: float) -> None:
        self.model = model
        self.action_features = action_features
        self.low, self.high = low, high

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the expected reward of every action: (k, n_actions)."""
        n_actions = len(self.action_features)
        pairs = np.repeat(context, n_actions, axis=0)
        actions = np.tile(np.arange(n_actions), len(context))
        return self.at(pairs, actions).reshape(len(context), n_actions)

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the expected reward of each row's action: (k,)."""
        from threadpoolctl import threadpool_limits

        pairs = np.concatenate([context, self.action_features[action]], axis=1)
        # Many small calls on more threads than free cores take a hundred times as long.
        with threadpool_limits(1):
            mean = self.model.predict(pairs)
        kept: FloatArray = np.clip(mean, self.low, self.high)
        return kept


def fit_boosted(data: LoggedDecisions, ridge: float) -> BoostedReward:
    """Fit scikit-learn's histogram gradient boosting; an action's mean is shrunk to the mean."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    n_actions = len(data.actions)
    count = np.bincount(data.action, minlength=n_actions)
    total = np.bincount(data.action, data.reward, minlength=n_actions)
    mean = (total + ridge * data.reward.mean()) / (count + ridge)
    features = np.concatenate([mean[:, None], data.embedding], axis=1)
    model = HistGradientBoostingRegressor(
        max_iter=100, learning_rate=0.05, early_stopping=False, random_state=0
    )
    with threadpool_limits(1):
        model.fit(np.concatenate([data.context, features[data.action]], axis=1), data.reward)
    return BoostedReward(model, features, float(data.reward.min()), float(data.reward.max()))


class ConstantReward:
    """q(x, a) = the mean of the logged rewards: neither context nor action matter.

    Parameters
    ----------
    mean : of the logged rewards.
    n_actions : number of actions.
    """

    def __init__(self, mean: float, n_actions: int) -> None:
        self.mean, self.n_actions = mean, n_actions

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the expected reward of every action: (k, n_actions)."""
        return np.full((len(context), self.n_actions), self.mean)

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the expected reward of each row's action: (k,)."""
        return np.full(len(action), self.mean)


def fit_constant(data: LoggedDecisions) -> ConstantReward:
    """Take the mean of the logged rewards."""
    return ConstantReward(float(data.reward.mean()), len(data.actions))
