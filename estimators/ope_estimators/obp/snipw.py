"""Self-normalised inverse propensity weighting by the Open Bandit Pipeline."""

from __future__ import annotations

from ope_bench.errors import PositivityViolation
from ope_bench.view import Access, View
from ope_estimators.obp.adapter import Adapter

__all__ = ["SNIPW"]


class SNIPW(Adapter):
    """Open Bandit Pipeline's self-normalised inverse propensity weighting.

        V̂ = sum_i w_i r_i / sum_i w_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    Assumptions: known propensities; finitely many actions; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little. All weights zero: the peer divides by zero, which is
    reported as PositivityViolation.

    References
    ----------
    The self-normalized estimator for counterfactual learning (Swaminathan and Joachims, 2015).
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def _value(self, view: View) -> float:
        from obp.ope import SelfNormalizedInverseProbabilityWeighting

        arrays = self._arrays(view)
        if not view.target_policy.probability(view.context, view.action).any():
            msg = f"all {view.n} weights are 0: nothing that the target policy does was logged"
            raise PositivityViolation(msg)
        return float(SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**arrays))
