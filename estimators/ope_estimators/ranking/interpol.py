"""Between the item-position and the position-based model of clicks."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge

from ope_bench import FloatArray, View
from ope_estimators.ranking.list_weighted import Examined

__all__ = ["Interpol"]


class Interpol(Examined):
    """Clicks on an item near a slot say what a click at that slot is worth.

        V̂ = (1/n) sum_i w_i r_i,
        w_i = sum_(k: |k - k_i| <= h) θ_k π1(a_i at k) / sum_(l: |l - k| <= h) θ_l π0(a_i at l)

    A window h of 0 is `IIPS`, one as long as the list `PBMIPW`: a wide window needs the
    examination θ to be right over it, and has small weights.

    Assumptions: known probabilities of items at slots; within a window, clicks are θ_k times a
    chance that does not depend on the slot.
    Fails when: that is not so: users stop after a click, or trust high slots.

    Parameters
    ----------
    window : h.
    examination : ``reciprocal``, θ_k = 1/k^η for k = 1, 2, ...; ``estimated`` from the logs; or
        the numbers.
    eta : η.
    normalize : divide by the sum of the weights instead of n.

    References
    ----------
    Counterfactual ranking evaluation with flexible click models (Buchholz, London, Di Benedetto,
    Lichtenberg, Stein and Joachims, 2024).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(Interpol(), "ranking", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    window: Annotated[int, Ge(0)] = 1

    def _weight(self, view: View) -> FloatArray:
        return self._windowed(view, self.window)
