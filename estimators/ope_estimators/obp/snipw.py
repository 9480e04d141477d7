"""Self-normalized inverse propensity weighting by the Open Bandit Pipeline."""

from __future__ import annotations

from ope_bench import Access, PositivityViolation, View
from ope_estimators.obp.adapter import Adapter

__all__ = ["SNIPW"]


class SNIPW(Adapter):
    """Open Bandit Pipeline's self-normalized inverse propensity weighting.

        V̂ = sum_i w_i r_i / sum_i w_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    Assumptions: known propensities; finitely many actions; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little. If all weights are zero, the Pipeline divides by zero,
    which is reported as PositivityViolation.

    References
    ----------
    The self-normalized estimator for counterfactual learning (Swaminathan and Joachims, 2015).
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def _value(self, view: View) -> float:
        from obp.ope import SelfNormalizedInverseProbabilityWeighting

        arrays = self._arrays(view)
        if not view.target_policy.probability(view.context, view.action).any():
            msg = f"all {view.n} weights are 0: no action of the target policy was logged"
            raise PositivityViolation(msg)
        return float(SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**arrays))
