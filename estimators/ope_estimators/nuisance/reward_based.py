"""The common parts of estimators that fit a reward model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, Diagnostic, Estimator, FloatArray, Nuisance, ParameterError, View
from ope_estimators.features.actions import ActionFeaturesName
from ope_estimators.learning import learners
from ope_estimators.learning.learners import GIVEN, MIXED, MIXED_MODELS
from ope_estimators.nuisance.expected_reward import ExpectedReward
from ope_estimators.nuisance.given import GivenRewardModel
from ope_estimators.nuisance.pooled import (
    PooledRewardModel,
    pooled_params,
    require_no_features,
)
from ope_estimators.nuisance.reward import FittedReward, RewardModel
from ope_estimators.nuisance.separate import (
    ActionFeaturesOption,
    OwnRewardModel,
    SeparateRewardModel,
)

__all__ = ["ActionRewardBased", "RewardBased"]


class RewardBased(Estimator):
    """Base of estimators with the parameters ``regressor`` and ``regressor_params``.

    With ``regressor="given"`` the problem's predictions are used; an estimator that can do with
    them at the logged rows alone has `_with_predictions` in its ``access``.
    """

    regressor: learners.RewardModelName = MIXED
    regressor_params: Mapping[str, Any] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules of the regressor."""
        return learners.requires(self.regressor)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the regressor."""
        return learners.devices(self.regressor)

    def _with_predictions(self, access: Access) -> Access:
        """Return an access with the problem's predictions, where the regressor is ``given``."""
        return access | Access.PREDICTED_REWARD if self.regressor == GIVEN else access

    def _fitted_reward(
        self,
        view: View,
        on: Literal["action", "embedding"],
        cross_fit: int,
        action_features: ActionFeaturesOption = "one-hot",
    ) -> FittedReward:
        """Return the reward model, fitted now or shared with other estimators."""
        params = learners.frozen(self.regressor_params)
        if self.regressor == GIVEN:
            if on != "action" or Access.PREDICTED_REWARD not in self.access:
                msg = f"{type(self).__name__} cannot use regressor=given: choose a regressor"
                raise ParameterError(msg)
            model: Nuisance[FittedReward] = GivenRewardModel()
        elif on == "action" and self.regressor in MIXED_MODELS and view.n_actions is not None:
            require_no_features(action_features)
            model = PooledRewardModel(
                pooled_params(self.regressor, self.regressor_params), cross_fit
            )
        elif on == "action" and action_features == "separate":
            model = SeparateRewardModel(self.regressor, params, cross_fit)
        elif on == "action" and action_features == "own":
            model = OwnRewardModel(self.regressor, params, cross_fit)
        else:
            names: ActionFeaturesName = "one-hot"
            if action_features != "separate" and action_features != "own":
                names = action_features
            model = RewardModel(self.regressor, params, on, names, cross_fit)
        self.reward_model_ = model
        return view.fitted(self.reward_model_)

    def _expected_reward(self, view: View) -> FloatArray:
        """Return sum_a π1(a|x_i) q̂(x_i, a), computed now or shared with other estimators: (n,)."""
        return view.fitted(ExpectedReward(self.reward_model_))


class ActionRewardBased(RewardBased):
    """Base of estimators with a reward model of actions, fitted out of folds where asked for."""

    @property
    def access(self) -> Access:
        """The target policy, and predictions that are given."""
        return self._with_predictions(Access.TARGET_POLICY)

    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 1

    @property
    def row_weights(self) -> bool:
        """The mean and the model use them."""
        return True

    @property
    def action_masks(self) -> bool:
        """The target policy respects them."""
        return True

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        self.reward_ = self._fitted_reward(view, "action", self.cross_fit, self.action_features)
        return self

    def _signal(self, view: View, residual: FloatArray) -> dict[str, Diagnostic]:
        """Return the share of the rewards' variance that q̂ explains, where there is one.

        Parameters
        ----------
        residual : (n,), rewards less q̂ of the logged rows.
        """
        count = np.ones(view.n) if view.row_weight is None else view.row_weight
        with np.errstate(over="ignore", invalid="ignore"):
            spread = count @ np.square(view.reward - np.average(view.reward, weights=count))
            share = 1.0 - count @ np.square(residual) / spread if spread > 0 else np.nan
        return {"reward_r2": float(share)} if np.isfinite(share) else {}
