"""The direct method from samples only."""

from __future__ import annotations

from ope_bench import Access, Estimate, View
from ope_estimators.actions.weighting.weighted_mean import never_logged
from ope_estimators.nuisance.reward_based import ActionRewardBased

__all__ = ["DMStar"]


class DMStar(ActionRewardBased):
    """A reward model averaged over the target sample, without known policies.

        V̂ = (1/m) sum_j q̂(x'_j, a'_j),   (x', a') the target sample

    The target sample represents the target policy, so no policy is estimated. No standard error:
    the variance of the terms does not reflect the error of q̂.

    Assumptions: q̂ is accurate at the target sample.
    Fails when: actions of the target sample were never logged, so that q̂ extrapolates. Their
    share is reported as ``unsupported_mass``.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds by unit; a target row has the average of the models that were
        fitted without its unit; 1 fits one model on all rows.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum, which is `DMStarPaper`.
    """

    access = Access.SAMPLES

    @property
    def row_weights(self) -> bool:
        """Not used."""
        return False

    def estimate(self, view: View) -> Estimate:
        """Average the model over the target sample."""
        # Without units, all models are averaged, also with shared contexts.
        reward = self.reward_.at_target if view.has_units else self.reward_
        predicted = reward(view.target_context, view.target_action)
        return Estimate(
            float(predicted.mean()), diagnostics={"unsupported_mass": never_logged(view)}
        )
