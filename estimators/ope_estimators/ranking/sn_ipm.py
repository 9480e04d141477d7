"""The item-position model, normalized at each slot."""

from __future__ import annotations

import numpy as np

from ope_bench import Estimate, FloatArray, LinearScore, View, standard_error
from ope_estimators.actions.weighting.ipw import ActionWeighting
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.ranking.list_weighted import by_slot

__all__ = ["SNIPM"]


class SNIPM(ActionWeighting):
    """Rewards averaged at each slot with weights that sum to one there.

        V̂ = sum_k (n_k/n) sum_(i at k) w_i r_i / sum_(i at k) w_i,   w_i as in `IIPS`

    n_k of n rows are at slot k. Within the range of the rewards, and shifted by c when all rewards
    are. Lists of one item give `IPWS`.

    Assumptions: those of `IIPS`.
    Fails when: those fail. All weights of a slot are zero: PositivityViolation.

    Note: the released code of the Music Off-Policy Evaluation Benchmark sums the means of all
    slots, which counts a slot that short lists lack as if every list had it. With lists of one
    length it says the number of slots times the value here.

    References
    ----------
    Offline evaluation of ranking policies with click models (Li et al., 2018), for the model. The
    self-normalized estimator for counterfactual learning (Swaminathan and Joachims, 2015).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(SNIPM(), "ranking", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=True)

    def estimate(self, view: View) -> Estimate:
        """Return the sum over slots of shares times self-normalized means."""
        rows = self._rows(view)
        if view.slot is None or not view.slot.any():
            return super().estimate(view)

        def normalized(index: np.ndarray) -> tuple[float, FloatArray]:
            some = rows.take(index)
            found = self._answer(some)
            assert found.terms is not None  # noqa: S101  weights have terms
            return found.value, found.terms

        value, terms = by_slot(view, normalized)
        facts = {"mean_weight": float(rows.weight.mean())}
        error = standard_error(terms, view.unit)
        return Estimate(value, error, rows.weight, facts, weight_space="action", terms=terms)
