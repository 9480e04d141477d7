"""The direct method as printed in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_bench import Estimate, View
from ope_estimators.learning import learners
from ope_estimators.nuisance.reward_based import ActionRewardBased

__all__ = ["DMPaper"]


class DMPaper(ActionRewardBased):
    """The direct method as printed: the target policy's weight at the *logged* action.

        V̂ = (1/n) sum_i π1(a_i|x_i) q̂(x_i, a_i)

    This is no average over the target policy's actions. For every q̂ it converges to
    E sum_a π0(a|x) π1(a|x) q(x, a), about V / n_actions under uniform logging; with continuous
    actions π1 is a density and even the unit is wrong. `DM` sums over actions instead.

    Assumptions: consistent only for a single action.
    Fails when: always; it tends to 0 as the number of actions grows.

    Parameters
    ----------
    regressor : a regressor's name; the paper's is gradient boosting with default sizes.
    regressor_params : its parameters.
    action_features : as for `DM`; not specified in the paper.
    cross_fit : folds; the printed form fits in-sample, which is 1.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), definition of
    the DM estimator.
    """

    expected_failures: ClassVar[Mapping[str, str]] = {
        "check_identical_policies_give_the_logging_average": (
            "as printed: the weight of logged actions gives no average over actions"
        )
    }

    check_params: ClassVar[Mapping[str, Any]] = {"regressor_params": {"n_estimators": 20}}

    regressor: learners.RewardModelName = "gbm"

    @property
    def row_weights(self) -> bool:
        """Not used."""
        return False

    def estimate(self, view: View) -> Estimate:
        """Average over the logged rows."""
        policy = view.target_policy.probability(view.context, view.action)
        return Estimate(float((policy * self.reward_.logged(view.context, view.action)).mean()))
