"""The embedded direct method as printed in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ope_bench import Access, Estimate, View
from ope_estimators.embedded.learned.edm_star import EDMStar
from ope_estimators.learning import learners

__all__ = ["EDMPaper"]


class EDMPaper(EDMStar):
    """The embedded direct method as printed: the target's density at the *logged* embedding.

        V̂ = (1/n) sum_i π1(g_i|x_i) q̂(x_i, g_i)

    This is no average over the target policy's embeddings. For every q̂ it converges to
    E sum_g π0(g|x) π1(g|x) q(x, g); with continuous embeddings π1 is a density, and a change of
    the embedding's unit changes the estimate. `EDM` sums over embeddings instead.

    Assumptions: consistent only for a single embedding.
    Fails when: always.

    Parameters
    ----------
    regressor : a regressor's name; the paper's is gradient boosting with default sizes.
    regressor_params : its parameters.
    cross_fit : folds; the printed form fits in-sample, which is 1.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), definition of
    the EDM estimator.
    """

    access = Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION
    expected_failures: ClassVar[Mapping[str, str]] = {
        "check_identical_policies_give_the_logging_average": (
            "as printed: the weight of logged embeddings gives no average over embeddings"
        )
    }

    check_params: ClassVar[Mapping[str, Any]] = {"regressor_params": {"n_estimators": 20}}

    regressor: learners.RewardModelName = "gbm"

    def estimate(self, view: View) -> Estimate:
        """Average over the logged rows."""
        distribution, policy = view.embedding_distribution, view.target_policy
        density = distribution.marginal(policy, view.context, view.embedding)
        terms = density * self.reward_.logged(view.context, view.embedding)
        return Estimate(float(terms.mean()))
