"""Base of the estimators that weigh some actions and ask a reward model about the others."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, FloatArray, IntArray, LinearScore, Solution, UnavailableError, View
from ope_estimators.actions.weighting.ipw import TransformedWeights
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.partial_expectation import blended_expectations
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption
from ope_estimators.tuning.rules import DataRule
from ope_estimators.tuning.thresholds import threshold_grid

__all__ = ["Blended", "BlendedRows"]


@dataclass(frozen=True, eq=False, kw_only=True)
class BlendedRows(WeightedRows):
    """Logged rows, and what a reward model adds to them at each threshold.

    Parameters
    ----------
    thresholds : (k,)
    modelled : (k, n), sum_a π1(a|x_i) s(w(x_i, a)) q̂(x_i, a), s being the share of an action
        that is left to the model.
    mass : (k,), mean of sum_a π1(a|x_i) s(w(x_i, a)).
    model : (n,), q̂ at the logged actions.
    """

    thresholds: FloatArray
    modelled: FloatArray
    mass: FloatArray
    model: FloatArray

    def take(self, index: IntArray) -> BlendedRows:
        """Return some of the rows."""
        part = super().take(index)
        assert isinstance(part, BlendedRows)  # noqa: S101  `replace` keeps the class
        return replace(part, modelled=self.modelled[:, index], model=self.model[index])

    def at(self, threshold: float | FloatArray) -> WeightedRows:
        """Return the rows with what the model adds at one or a column of the thresholds."""
        k = (self.thresholds == threshold).argmax(axis=-1)
        return replace(self, baseline=self.modelled[k])


class Blended(TransformedWeights, RewardBased):
    """Base: weighted rewards of actions with small weights, a reward model for the others.

        V̂ = (1/n) sum_i [ u(w_i) r_i + sum_a π1(a|x_i) s(w(x_i, a)) q̂(x_i, a) ],
        s(w) = 1 - u(w) / w

    A subclass says what u and s are, and estimates the bias at each threshold.

    Parameters
    ----------
    threshold : a number, or the rule that chooses it.
    regressor, regressor_params : the reward model.
    action_features : how actions become features.
    cross_fit : number of folds; 1 fits in-sample.
    """

    tuned = "threshold"

    threshold: Annotated[float, Ge(0)] | DataRule = "mse"
    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5

    @property
    def access(self) -> Access:
        """Both policies, and predictions that are given."""
        return self._with_predictions(Access.LOGGING_POLICY | Access.TARGET_POLICY)

    @property
    def row_weights(self) -> bool:
        """The means, the model and the rules use them."""
        return True

    @staticmethod
    @abstractmethod
    def _share(weight: FloatArray, threshold: float) -> FloatArray:
        """Return s(w), the share of an action that is left to the model."""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        if view.n_actions is None:
            msg = "it sums over the actions of large weight; this environment's are continuous"
            raise UnavailableError(msg)
        super().fit(view, rng=rng, device=device)
        self.reward_ = self._fitted_reward(view, "action", self.cross_fit, self.action_features)
        return self

    def _rows(self, view: View) -> WeightedRows:
        n_actions = view.n_actions
        assert n_actions is not None  # noqa: S101  fit has refused continuous actions
        rows = super()._rows(view)
        if isinstance(self.threshold, str):
            made = self.ladder is None
            thresholds = (
                threshold_grid(rows.repeated(rows.weight)) if made else np.array(self.ladder)
            )
        else:
            thresholds = np.array([self.threshold])
        modelled, mass = blended_expectations(
            self.reward_, view, n_actions, self._share, thresholds
        )
        return BlendedRows(
            rows.weight,
            rows.propensity,
            rows.outcome,
            rows.unit,
            rows.row_weight,
            reward_range=rows.reward_range,
            unsupported_mass=rows.unsupported_mass,
            thresholds=thresholds,
            modelled=modelled,
            mass=mass,
            model=self.reward_.logged(view.context, view.action),
        )

    def _score_at(self, rows: WeightedRows, parameter: float | FloatArray | None) -> LinearScore:
        assert isinstance(rows, BlendedRows)  # noqa: S101  made by `_rows`
        return super()._score_at(rows if parameter is None else rows.at(parameter), parameter)

    def _answer(self, rows: WeightedRows) -> Solution:
        assert isinstance(rows, BlendedRows)  # noqa: S101  made by `_rows`
        answer = super()._answer(rows)
        at = rows.thresholds == answer.diagnostics["threshold"]
        answer.diagnostics["modelled_mass"] = float(rows.mass[np.flatnonzero(at)[0]])
        return answer

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        assert isinstance(rows, BlendedRows)  # noqa: S101  made by `_rows`
        return rows.thresholds
