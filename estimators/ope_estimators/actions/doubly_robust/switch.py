"""Importance weighting of small weights, a reward model for actions of large weight."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.actions.doubly_robust.blended import Blended, BlendedRows
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.thresholds import exceeds

__all__ = ["Switch"]


class Switch(Blended):
    """Weighted rewards where weights are small, a reward model for actions of large weight.

        V̂ = (1/n) sum_i [ w_i 1{w_i <= τ} r_i + sum_{a: w(x_i, a) > τ} π1(a|x_i) q̂(x_i, a) ],
        w(x, a) = π1(a|x) / π0(a|x),   w_i = w(x_i, a_i)

    τ = 0 is the direct method, τ -> ∞ `IPW`. The weight of an action that the logging policy
    never takes is infinite: the model answers for it. The diagnostic ``modelled_mass`` is the
    target policy's mass of the actions that are left to the model.

    Assumptions: both policies are known; q̂ is right where w > τ.
    Fails when: q̂ extrapolates wrongly to actions of large weight, of which the logs hold few by
    definition; the standard error says nothing of this bias. Rewards far from 0: the part that is
    weighted has the variance of `IPW`.

    Parameters
    ----------
    threshold : τ >= 0; ``mse``, ``slope`` or ``ocv`` choose among 30 values in geometric
        progression, from the 95 % quantile of the positive logged weights down to the 5 %
        quantile. The bias that ``mse`` supposes is the range of the rewards times
        ``modelled_mass``: a bound where q̂ errs by no more than that range.
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
    Optimal and adaptive off-policy evaluation in contextual bandits (Wang, Agarwal and Dudík,
    2017), section 4, SWITCH.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(Switch(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> 0 <= record.diagnostics["modelled_mass"] < 1
    True
    """

    @staticmethod
    def _share(weight: FloatArray, threshold: float) -> FloatArray:
        return np.where(exceeds(weight, threshold), 1.0, 0.0)

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        return np.where(exceeds(rows.weight, parameter), 0.0, rows.weight)

    def _bias(
        self, rows: WeightedRows, candidates: FloatArray, estimate: FloatArray
    ) -> FloatArray:
        assert isinstance(rows, BlendedRows)  # noqa: S101  made by `_rows`
        return rows.reward_range() * rows.mass
