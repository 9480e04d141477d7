"""Importance weighting of each slot of a list alone."""

from __future__ import annotations

from ope_bench import FloatArray, View
from ope_estimators.ranking.list_weighted import ListWeighted

__all__ = ["IIPS"]


class IIPS(ListWeighted):
    """The reward at a slot weighted by the ratio of the item's probability at that slot.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(a_i at k_i|x) / π0(a_i at k_i|x)

    That is `IPW` on the rows, also called the item-position model. Unbiased where the reward at a
    slot depends on its own item alone; the least weights of `SIPS`, `RIPS` and this.

    Assumptions: known propensities of items at slots; no effect of an item on others' rewards.
    Fails when: users stop after a click, or items compete: what is above or below changes with the
    policy, and the weights do not see it.

    Parameters
    ----------
    normalize : divide by the sum of the weights instead of n.

    References
    ----------
    Offline evaluation of ranking policies with click models (Li, Abbasi-Yadkori, Kveton,
    Muthukrishnan, Vinay and Wen, 2018), the item-position model.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IIPS(), "ranking", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    def _weight(self, view: View) -> FloatArray:
        chance = view.target_policy.probability(view.context, view.action)
        weight: FloatArray = chance / view.propensity
        return weight
