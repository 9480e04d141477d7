"""What the estimators that fit a reward model share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ope_bench.estimator import Estimator
from ope_bench.view import View
from ope_estimators.nuisance import learners
from ope_estimators.nuisance.features import ActionFeaturesName
from ope_estimators.nuisance.reward import FittedReward, RewardModel

__all__ = ["RewardBased"]


class RewardBased(Estimator):
    """Base of estimators with ``regressor``, ``regressor_params`` and ``cross_fit``."""

    check_params: ClassVar[Mapping[str, Any]] = {"regressor_params": {"n_estimators": 20}}

    regressor: str
    regressor_params: Mapping[str, Any] | None
    cross_fit: int

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
        action_features: ActionFeaturesName = "one-hot",
    ) -> FittedReward:
        """The reward model, fitted now or shared with other estimators."""
        params = learners.frozen(self.regressor_params)
        spec = RewardModel(self.regressor, params, on, action_features, self.cross_fit)
        return view.fitted(spec)
