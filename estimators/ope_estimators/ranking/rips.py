"""Importance weighting of lists up to each item, for users who read from the top."""

from __future__ import annotations

from ope_bench import Access, FloatArray, View
from ope_estimators.ranking.list_weighted import ListWeighted

__all__ = ["RIPS"]


class RIPS(ListWeighted):
    """The reward at a slot weighted by the ratio of the list from the top to that slot.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(a_1, ..., a_k|x) / π0(a_1, ..., a_k|x)

    Unbiased where the reward at a slot does not depend on what is below. Lists of one item give
    `IPW`.

    Assumptions: known probabilities of prefixes; a reward depends on its slot and those above.
    Fails when: lists are long, less than `SIPS` does; or an item below changes a reward.

    Parameters
    ----------
    normalize : divide by the sum of the weights instead of n.

    References
    ----------
    Counterfactual evaluation of slate recommendations with sequential reward interactions
    (McInerney, Brost, Chandar, Mehrotra and Carterette, 2020), equation 8.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(RIPS(), "ranking[clicks=cascade]", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    @property
    def access(self) -> Access:
        """The probability of each row's list up to its slot."""
        return Access.PREFIX_PROPENSITY

    def _weight(self, view: View) -> FloatArray:
        weight: FloatArray = view.prefix_propensity[:, 1] / view.prefix_propensity[:, 0]
        return weight
