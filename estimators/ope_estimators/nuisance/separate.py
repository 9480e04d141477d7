"""Reward models with a separate part for each action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ope_bench import FloatArray, IntArray, ParameterError, UnavailableError, View
from ope_estimators.features.actions import ActionFeaturesName, encoded
from ope_estimators.features.pairs import PairFeatures
from ope_estimators.learning.learners import regressor
from ope_estimators.learning.per_action import OwnRegressor, PerActionRegressor
from ope_estimators.nuisance.reward import FittedReward, fit_by_folds

__all__ = ["ActionFeaturesOption", "OwnRewardModel", "SeparateRewardModel"]

ActionFeaturesOption = Literal[ActionFeaturesName, "separate", "own"]
"""A table of action features; ``separate``, a common model and a deviation of each action; or
``own``, a model of each action's rows alone."""


@dataclass(frozen=True)
class SeparateRewardModel:
    """A shared fit: a common regression of the reward, and a linear deviation for each action.

    The common model uses the context and the action's embedding, as with the action features
    ``embedding``; the deviations use the context. An action that was never logged has the common
    model alone.

    Parameters
    ----------
    learner : the common regressor's name.
    params : its parameters, in the form of `learners.frozen`; ``shrinkage`` among them is the
        penalty on deviations, chosen from the data where it is missing.
    cross_fit : number of folds, by unit; 1 fits one model on all rows.

    Raises
    ------
    UnavailableError : actions are continuous.
    ParameterError : ``shrinkage`` is not a non-negative number.
    """

    learner: str
    params: tuple[tuple[str, Any], ...]
    cross_fit: int

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedReward:
        """Return the fitted model; each fold's model is fitted without that fold."""
        if view.n_actions is None:
            msg = "action_features = 'separate' is for finitely many actions; these are continuous"
            raise UnavailableError(msg)
        params = dict(self.params)
        shrinkage = _checked(params.pop("shrinkage", None))
        features = SeparateFeatures(view)

        def make(seed: int) -> PerActionRegressor:
            common = regressor(self.learner, seed=seed, device=device, params=params)
            return PerActionRegressor(common, features.n_context, shrinkage)

        return fit_by_folds(view, features, view.action, make, cross_fit=self.cross_fit, rng=rng)


@dataclass(frozen=True)
class OwnRewardModel:
    """A shared fit: a regression of the reward on the context for each action, on its rows alone.

    An action that was never logged has the mean reward of all rows.

    Parameters
    ----------
    learner : the regressor's name, or the import path of a classifier of rewards of 0 and 1.
    params : its parameters, in the form of `learners.frozen`.
    cross_fit : number of folds, by unit; 1 fits one model of each action on all rows.

    Raises
    ------
    UnavailableError : actions are continuous.
    """

    learner: str
    params: tuple[tuple[str, Any], ...]
    cross_fit: int

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedReward:
        """Return the fitted models; each fold's are fitted without that fold."""
        if view.n_actions is None:
            msg = "action_features = 'own' is for finitely many actions; these are continuous"
            raise UnavailableError(msg)
        params = dict(self.params)

        def make(seed: int) -> OwnRegressor:
            return OwnRegressor(
                lambda: regressor(self.learner, seed=seed, device=device, params=params)
            )

        # Errors of the name and the parameters are raised before rows are looked at.
        make(0).make()
        features = OwnFeatures(view)
        return fit_by_folds(view, features, view.action, make, cross_fit=self.cross_fit, rng=rng)


class OwnFeatures(PairFeatures):
    """Action number and context.

    Parameters
    ----------
    view : source of the columns and actions.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view, "action", "ordinal")

    def __call__(self, context: FloatArray, points: FloatArray | IntArray) -> FloatArray:
        """Return the features of each pair: (k, 1 + n_context)."""
        number = np.asarray(points, dtype=np.float64)[:, None]
        return np.hstack([number, encoded(self._columns, context)])


class SeparateFeatures(PairFeatures):
    """Action number, context, and the features of the common model.

    Parameters
    ----------
    view : source of the columns and actions.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view, "action", "embedding")

    def __call__(self, context: FloatArray, points: FloatArray | IntArray) -> FloatArray:
        """Return the features of each pair: (k, 1 + n_context + n_common)."""
        pooled = super().__call__(context, points)
        number = np.asarray(points, dtype=np.float64)[:, None]
        return np.hstack([number, encoded(self._columns, context), pooled])


def _checked(shrinkage: Any) -> float | None:
    if shrinkage is None:
        return None
    if isinstance(shrinkage, bool) or not isinstance(shrinkage, int | float) or shrinkage < 0:
        msg = f"regressor_params: shrinkage = {shrinkage!r}; expected a number >= 0"
        raise ParameterError(msg)
    return float(shrinkage)
