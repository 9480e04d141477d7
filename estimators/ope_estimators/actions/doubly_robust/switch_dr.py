"""The doubly robust estimator without the residuals of large weights."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import FloatArray
from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.actions.weighting.ipw import TransformedWeights
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.rules import DataRule
from ope_estimators.tuning.thresholds import exceeds, threshold_grid

__all__ = ["SwitchDR"]


class SwitchDR(ResidualWeighted, TransformedWeights):
    """The direct method plus weighted residuals, but for rows of large weight.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + w_i 1{w_i <= τ} (r_i - q̂(x_i, a_i)) ],
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    τ = 0 is the direct method, τ -> ∞ `DR`.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: q̂ is wrong where weights exceed τ: the bias is E[w 1{w > τ} (q̂ - r)], of which
    the standard error says nothing. Missing support as for `DR`.

    Parameters
    ----------
    threshold : τ >= 0; ``mse``, ``slope`` or ``ocv`` choose among 30 values in geometric
        progression, from the 95 % quantile of the positive weights down to the 5 % quantile. The
        bias that ``mse`` supposes is the range of the rewards times the target policy's mass of
        w > τ, estimated by mean[w 1{w > τ}]: a bound where q̂ errs by no more than that range.
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Optimal and adaptive off-policy evaluation in contextual bandits (Wang, Agarwal and Dudík,
    2017), section 4, SWITCH-DR.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(SwitchDR(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["threshold"] > 0
    True
    """

    tuned = "threshold"

    threshold: Annotated[float, Ge(0)] | DataRule = "mse"

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        return np.where(exceeds(rows.weight, parameter), 0.0, rows.weight)

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        return threshold_grid(rows.repeated(rows.weight))

    def _bias(
        self, rows: WeightedRows, candidates: FloatArray, estimate: FloatArray
    ) -> FloatArray:
        weight = rows.counted(rows.weight)
        above = [weight @ exceeds(rows.weight, threshold) for threshold in candidates]
        return rows.reward_range() * np.array(above) / rows.n
