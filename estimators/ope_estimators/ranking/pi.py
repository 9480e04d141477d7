"""The pseudo-inverse estimator of list values."""

from __future__ import annotations

import numpy as np

from ope_bench import Access, FloatArray, ListPolicy, UnavailableError, View
from ope_estimators.ranking.list_weighted import ListWeighted, slots_of

__all__ = ["PI"]


class PI(ListWeighted):
    """List rewards weighted for a value that is a sum of parts of single items at slots.

        V̂ = (1/n) sum_lists (sum of the list's rewards) E_π1[1_A]' E_π0[1_A 1_A']⁺ 1_A

    1_A has an entry for each slot and item. Unbiased where the list's expected reward is
    sum_k φ_k(x, a_k), whatever φ; a click at one slot may thus count for an item at another.
    With independently drawn slots the weight is sum_k π1(a_k|x)/π0(a_k|x) - L + 1.

    Assumptions: a known logging policy over lists; additive rewards; every item that the target
    policy has at a slot is logged there.
    Fails when: rewards are not additive (a cascade); lists are so many that second moments
    cannot be summed: unavailable.

    Parameters
    ----------
    normalize : divide by the sum of the weights instead of n.

    References
    ----------
    Off-policy evaluation for slate recommendation (Swaminathan et al., 2017), equation 3.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(PI(), "ranking", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    @property
    def access(self) -> Access:
        """Both policies over lists."""
        return Access.LOGGING_POLICY | Access.TARGET_POLICY

    def _weight(self, view: View) -> FloatArray:
        logging, target, slot = view.logging_policy, view.target_policy, slots_of(view)
        if not slot.any():
            chance = target.probability(view.context, view.action)
            single: FloatArray = chance / view.propensity
            return single
        if not (isinstance(logging, ListPolicy) and isinstance(target, ListPolicy)):
            msg = "pi needs a logging and a target policy over lists, with their second moments"
            raise UnavailableError(msg)
        length, n_actions = logging.length, logging.n_actions
        units, row = np.unique(view.unit, return_inverse=True)
        shown = np.zeros((len(units), length, n_actions))
        shown[row, slot, view.action] = 1.0
        slots = shown.sum(axis=(1, 2)).astype(np.int64)
        first = np.zeros(len(units), dtype=np.int64)
        first[row[::-1]] = np.arange(view.n)[::-1]
        weight = np.empty(len(units))
        for size in np.unique(slots):
            lists = np.flatnonzero(slots == size)
            users, user = np.unique(view.context[first[lists], :-1], axis=0, return_inverse=True)
            start = np.column_stack([users, np.zeros(len(users))])
            width = int(size) * n_actions
            moments = logging.second_moments(start)[:, :width, :width]
            wanted = np.concatenate(
                [
                    target.table(np.column_stack([users, np.full(len(users), k)]))
                    for k in range(size)
                ],
                axis=1,
            )
            direction = np.einsum(
                "uj,ujk->uk", wanted, np.linalg.pinv(moments, rcond=1e-10, hermitian=True)
            )
            items = shown[lists].reshape(len(lists), -1)[:, :width]
            weight[lists] = np.einsum("lj,lj->l", direction[user.reshape(-1)], items)
        by_row: FloatArray = weight[row]
        return by_row
