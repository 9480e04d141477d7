"""Weighting under the position-based click model."""

from __future__ import annotations

from ope_bench import FloatArray, View
from ope_estimators.ranking.list_weighted import Examined

__all__ = ["PBMIPW"]


class PBMIPW(Examined):
    """Clicks weighted by how much more the target policy has an item examined, at any slot.

        V̂ = (1/n) sum_i w_i r_i,
        w_i = sum_k θ_k π1(a_i at k|x) / sum_k θ_k π0(a_i at k|x)

    A click anywhere tells of the item everywhere, so that weights are small even where a policy
    moves items between slots.

    Assumptions: known probabilities of items at slots; a click has θ_k times a chance that depends
    on user and item alone.
    Fails when: θ is wrong, users stop after a click, or they trust high slots.

    Parameters
    ----------
    examination : ``reciprocal``, θ_k = 1/k^η for k = 1, 2, ...; ``estimated`` from the logs; or
        the numbers.
    eta : η.
    normalize : divide by the sum of the weights instead of n.

    References
    ----------
    Offline evaluation of ranking policies with click models (Li et al., 2018), the position-based
    model.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(PBMIPW(), "ranking", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    def _weight(self, view: View) -> FloatArray:
        return self._windowed(view, view.position_marginals.shape[1])
