"""The common parts of estimators that fit a reward model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ope_bench import Estimator, FloatArray, Nuisance, View, params
from ope_estimators.learning import learners
from ope_estimators.nuisance.expected_reward import ExpectedReward
from ope_estimators.nuisance.reward import FittedReward, RewardModel
from ope_estimators.nuisance.separate import ActionFeaturesOption, SeparateRewardModel

__all__ = ["RewardBased"]


@params
class RewardBased(Estimator):
    """Base of estimators with the parameters ``regressor`` and ``regressor_params``."""

    check_params: ClassVar[Mapping[str, Any]] = {"regressor_params": {"n_estimators": 20}}

    regressor: learners.RegressorName = "gbm"
    regressor_params: Mapping[str, Any] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules of the regressor."""
        return learners.requires(self.regressor)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the regressor."""
        return learners.devices(self.regressor)

    def _fitted_reward(
        self,
        view: View,
        on: Literal["action", "embedding"],
        cross_fit: int,
        action_features: ActionFeaturesOption = "one-hot",
    ) -> FittedReward:
        """Return the reward model, fitted now or shared with other estimators."""
        params = learners.frozen(self.regressor_params)
        self.reward_model_: Nuisance[FittedReward] = (
            SeparateRewardModel(self.regressor, params, cross_fit)
            if action_features == "separate"
            else RewardModel(self.regressor, params, on, action_features, cross_fit)
        )
        return view.fitted(self.reward_model_)

    def _expected_reward(self, view: View) -> FloatArray:
        """Return sum_a π1(a|x_i) q̂(x_i, a), computed now or shared with other estimators: (n,)."""
        return view.fitted(ExpectedReward(self.reward_model_))
