"""The direct method from samples only, as printed in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ope_bench import Access, Estimate, View
from ope_estimators.actions.weighting.weighted_mean import never_logged
from ope_estimators.learning import learners
from ope_estimators.nuisance.policy import PolicyModel
from ope_estimators.nuisance.reward_based import ActionRewardBased

__all__ = ["DMStarPaper"]


class DMStarPaper(ActionRewardBased):
    """`DMPaper` with the target policy estimated by a classifier of its sample's actions.

        V̂ = (1/n) sum_i π̂1(a_i|x_i) q̂(x_i, a_i)

    Like `DMPaper` it converges to E sum_a π0(a|x) π1(a|x) q(x, a), not to the value. `DMStar`
    averages q̂ over the target sample instead and estimates no policy.

    Assumptions: consistent only for a single action.
    Fails when: always; it tends to 0 as the number of actions grows.

    Parameters
    ----------
    regressor, regressor_params, action_features, cross_fit : as for `DMPaper`.
    classifier : a classifier's name, for π̂1.
    classifier_params : its parameters.

    Raises
    ------
    UnavailableError : actions are continuous.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), definition of
    the DM* estimator.
    """

    access = Access.SAMPLES
    expected_failures: ClassVar[Mapping[str, str]] = {
        "check_identical_policies_give_the_logging_average": (
            "as printed: the weight of logged actions gives no average over actions"
        )
    }

    check_params: ClassVar[Mapping[str, Any]] = {"regressor_params": {"n_estimators": 20}}

    regressor: learners.RewardModelName = "gbm"
    classifier: learners.ActionClassifierName = "logistic"
    classifier_params: Mapping[str, Any] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules of both learners."""
        return learners.requires(self.regressor) + learners.requires(self.classifier)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of either learner."""
        both = learners.devices(self.regressor), learners.devices(self.classifier)
        return max(both, key=len)

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the target policy and the reward model."""
        params = learners.frozen(self.classifier_params)
        self.target_ = view.fitted(PolicyModel("target", self.classifier, params))
        return super().fit(view, rng=rng, device=device)

    @property
    def row_weights(self) -> bool:
        """Not used."""
        return False

    @property
    def action_masks(self) -> bool:
        """The classifier of the target's actions does not know them."""
        return False

    def estimate(self, view: View) -> Estimate:
        """Average over the logged rows."""
        policy = self.target_.probability(view.context, view.action)
        terms = policy * self.reward_.logged(view.context, view.action)
        return Estimate(float(terms.mean()), diagnostics={"unsupported_mass": never_logged(view)})
