"""The default reward model of actions: a common part, and a part of each action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray, ParameterError, UnavailableError, View
from ope_estimators.features.pairs import PairFeatures
from ope_estimators.learning.learners import MIXED, POOLED, Params, frozen, regressor
from ope_estimators.nuisance.reward import FittedReward, fit_by_folds

__all__ = ["PooledRewardModel", "pooled_params", "pooled_parts", "require_no_features"]

MAX_WIDTH = 200
"""Most features of an action's embedding that the common part uses."""


@dataclass(frozen=True)
class PooledRewardModel:
    """A shared fit: `PooledRegressor` of the reward on context, action and its embedding.

    Embeddings are used as with the action features ``embedding``, unless they have more features
    than `MAX_WIDTH`, or nearly as many as there are actions: they then tell actions apart, which
    the actions' own parts do. Actions of which nothing is known have their own parts alone.

    Parameters
    ----------
    params : of the regressor, in the form of `learners.frozen`.
    cross_fit : number of folds, by unit; 1 fits one model on all rows.

    Raises
    ------
    UnavailableError : actions are continuous.
    """

    params: tuple[tuple[str, Any], ...]
    cross_fit: int

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedReward:
        """Return the fitted model; each fold's model is fitted without that fold."""
        features, make = pooled_parts(view, self.params)
        return fit_by_folds(view, features, view.action, make, cross_fit=self.cross_fit, rng=rng)


def pooled_params(name: str, params: Params | None) -> tuple[tuple[str, Any], ...]:
    """Return the parameters of a `PooledRewardModel` of one of `MIXED_MODELS`."""
    bounds = {"bounded": True} if name == MIXED else {}
    return frozen({**bounds, **dict(params or ())})


def require_no_features(action_features: str) -> None:
    """Raise ParameterError where a choice of action features would be ignored."""
    if action_features != "one-hot":
        msg = (
            f"action_features = {action_features!r} is for other regressors than '{MIXED}', the "
            "default, which has a part for each action: name a regressor, or leave it out"
        )
        raise ParameterError(msg)


def pooled_parts(
    view: View, params: tuple[tuple[str, Any], ...]
) -> tuple[PooledFeatures, Callable[[int], Any]]:
    """Return the model's features, and what builds the unfitted regressor from a seed."""
    if view.n_actions is None:
        msg = "a part of each action is for finitely many actions; these are continuous"
        raise UnavailableError(msg)
    features = PooledFeatures(view, min(MAX_WIDTH, view.n_actions - 2))
    given = {**dict(params), "n_context": features.n_context, "by_action": True}
    return features, lambda seed: regressor(POOLED, seed=seed, params=given)


class PooledFeatures(PairFeatures):
    """Action number, context, and the action's embedding.

    Parameters
    ----------
    view : source of the columns and actions.
    max_width : most features of an embedding; one that has more is left out.
    """

    def __init__(self, view: View, max_width: int) -> None:
        super().__init__(view, "action", "embedding", max_width)

    def __call__(self, context: FloatArray, points: FloatArray | IntArray) -> FloatArray:
        """Return the features of each pair: (k, 1 + n_context + n_features)."""
        pair = super().__call__(context, points)
        return np.column_stack([np.asarray(points, dtype=np.float64), pair])
