"""Continuous adaptive blending of importance weighting and a reward model."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.actions.doubly_robust.blended import Blended, BlendedRows
from ope_estimators.actions.weighting.weighted_rows import WeightedRows

__all__ = ["CAB"]


class CAB(Blended):
    """Clipped importance weighting, and a reward model for what the clip cuts off.

        V̂ = (1/n) sum_i [ min(w_i, M) r_i + sum_a π1(a|x_i) (1 - M / w(x_i, a))⁺ q̂(x_i, a) ],
        w(x, a) = π1(a|x) / π0(a|x),   w_i = w(x_i, a_i)

    M = 0 is the direct method, M -> ∞ `IPW`. Unlike `Switch` it changes continuously with the
    weights. The weight of an action that the logging policy never takes is infinite: the model
    answers for it. The diagnostic ``modelled_mass`` is the target policy's mass that is left to
    the model.

    Assumptions: both policies are known; q̂ is right where w > M.
    Fails when: q̂ extrapolates wrongly to actions of large weight, of which the logs hold few by
    definition; the standard error says nothing of this bias. Rewards far from 0: the part that is
    weighted has the variance of clipped `IPW`.

    Parameters
    ----------
    threshold : M >= 0; ``mse``, ``slope`` or ``ocv`` choose among 30 values in geometric
        progression, from the 95 % quantile of the positive logged weights down to the 5 %
        quantile. The bias that ``mse`` supposes is mean[(w - M)⁺ (q̂ - r)].
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.

    Raises
    ------
    UnavailableError : actions are continuous.

    References
    ----------
    CAB: continuous adaptive blending for policy evaluation and learning (Su, Wang, Santacatterina
    and Joachims, 2019).

    Note: a public implementation swaps minimum and maximum.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(CAB(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> 0 <= record.diagnostics["modelled_mass"] < 1
    True
    """

    @staticmethod
    def _share(weight: FloatArray, threshold: float) -> FloatArray:
        # A weight of 0 belongs to an action that the target policy never takes.
        inverse = np.divide(threshold, weight, out=np.ones_like(weight), where=weight > 0)
        return np.maximum(0.0, 1.0 - inverse)

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        return np.minimum(rows.weight, parameter)

    def _bias(
        self, rows: WeightedRows, candidates: FloatArray, estimate: FloatArray
    ) -> FloatArray:
        assert isinstance(rows, BlendedRows)  # noqa: S101  made by `_rows`
        excess = rows.counted(np.maximum(0.0, rows.weight - candidates[:, None]))
        bias: FloatArray = excess @ (rows.model - rows.outcome) / rows.n
        return bias
