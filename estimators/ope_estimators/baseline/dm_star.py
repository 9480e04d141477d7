"""The direct method from samples only."""

from __future__ import annotations

from ope_bench.data import Estimate
from ope_bench.view import Access, View
from ope_estimators.baseline.dm import DM
from ope_estimators.baseline.weighting import never_logged

__all__ = ["DMStar"]


class DMStar(DM):
    """A reward model averaged over the target sample: no policy needs to be known.

        V̂ = (1/m) sum_j q̂(x'_j, a'_j),   (x', a') the target sample

    The target sample stands for the target policy, so none is estimated. Offers no standard
    error: the spread of the terms says nothing of the error of q̂.

    Assumptions: q̂ is right at the target sample.
    Fails when: actions of the target sample were never logged: q̂ answers all the same. Their
    share is reported as ``unsupported_mass``.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal`` or ``embedding``; as for `DM`.
    cross_fit : folds whose models are averaged; 1 fits one model on all rows.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum; it is `DMStarPaper`.
    """

    access = Access.SAMPLES

    def estimate(self, view: View) -> Estimate:
        """The average of the model over the target sample."""
        predicted = self.reward_(view.target_context, view.target_action)
        return Estimate(
            float(predicted.mean()), diagnostics={"unsupported_mass": never_logged(view)}
        )
