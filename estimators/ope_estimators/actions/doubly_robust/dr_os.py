"""The doubly robust estimator with optimistic shrinkage of its weights."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import FloatArray
from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.actions.weighting.intervals import IntervalOptions
from ope_estimators.actions.weighting.ipw import GRID, TransformedWeights
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.rules import DataRule

__all__ = ["DROS"]


class DROS(IntervalOptions, ResidualWeighted, TransformedWeights):
    """The direct method plus residuals whose large weights are shrunk to 0: optimistic shrinkage.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + u_i (r_i - q̂(x_i, a_i)) ],
        u_i = λ w_i / (w_i² + λ),   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    λ = 0 is the direct method, λ -> ∞ `DR`. No weight exceeds √λ / 2, the one of w = √λ; larger
    w have smaller weights again.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: q̂ is wrong where weights are large: the bias is E[(u - w) (r - q̂)], of which the
    standard error says nothing. Missing support as for `DR`.

    Parameters
    ----------
    lambda_ : λ >= 0; ``mse``, ``slope`` or ``ocv`` choose among 30 values in geometric
        progression, from 100 times the 95 % quantile of the squares of the positive weights down
        to the hundredth part of the 5 % quantile. The bias that ``mse`` supposes is
        mean[(u - w) (r - q̂)].
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    interval : ``bootstrap``, an interval beside the standard error, with all models fitted anew on
        each resample of units; ``asymptotic``, none.
    level : of the bootstrap interval.
    resamples : number of bootstrap samples.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Doubly robust off-policy evaluation with shrinkage (Su, Dimakopoulou, Krishnamurthy and
    Dudík, 2020), section 3.

    Note: Open Bandit Pipeline's tuner always ends at the largest candidate.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(DROS(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["lambda"] > 0
    True
    """

    tuned = "lambda_"

    lambda_: Annotated[float, Ge(0)] | DataRule = "mse"

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        weight, square = rows.weight, np.square(rows.weight)
        scale = square + parameter
        # With λ = 0 a weight of 0 is 0/0; it stays 0.
        return np.divide(parameter * weight, scale, out=np.zeros(scale.shape), where=scale > 0)

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        low, high = rows.positive_quantiles(2)
        return np.geomspace(100.0 * high, 0.01 * low, GRID) if low > 0 else np.array([1.0])

    def _bias(
        self, rows: WeightedRows, candidates: FloatArray, estimate: FloatArray
    ) -> FloatArray:
        bias: FloatArray = estimate - rows.plain
        return bias
