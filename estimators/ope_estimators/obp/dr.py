"""The doubly robust estimator by the Open Bandit Pipeline."""

from __future__ import annotations

from ope_bench import Access, View
from ope_estimators.obp.dm import DM

__all__ = ["DR"]


class DR(DM):
    """Open Bandit Pipeline's doubly robust estimator, with its cross-fitted reward model.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + w_i (r_i - q̂(x_i, a_i)) ]

    Assumptions: known propensities, or a correctly specified reward model; finitely many actions.
    Fails when: the policies overlap little; without support the bias is that of the reward model.

    Parameters
    ----------
    trees : number of trees of the random forest, as in the experiments of marginalized weighting.
    folds : number of folds for cross-fitting, by unit.

    References
    ----------
    Doubly robust policy evaluation and optimization (Dudík, Erhan, Langford and Li, 2014).
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def _value(self, view: View) -> float:
        from obp.ope import DoublyRobust

        value = DoublyRobust().estimate_policy_value(
            **self._arrays(view), estimated_rewards_by_reg_model=self.rewards_
        )
        return float(value)
