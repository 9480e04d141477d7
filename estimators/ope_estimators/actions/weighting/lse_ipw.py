"""The log-sum-exponential of weighted rewards."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Lt

from ope_bench import (
    FloatArray,
    Solution,
    row_chunks,
    standard_error,
    weighted_terms,
)
from ope_estimators.actions.weighting.ipw import TransformedWeights
from ope_estimators.actions.weighting.ls_ipw import product_grid
from ope_estimators.actions.weighting.weighted_mean import standard_errors
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.propensity import EstimatedPropensity
from ope_estimators.tuning.rules import Rule

__all__ = ["LSEIPW"]


class LSEIPW(EstimatedPropensity, TransformedWeights):
    """A soft minimum of the weighted rewards: the log-sum-exponential.

        V̂ = (1/λ) ln( (1/n) sum_i exp(λ w_i r_i) ),   w_i = π1(a_i|x_i) / π0(a_i|x_i),   λ < 0

    λ -> 0 gives `IPW`, and no λ < 0 more than `IPW`. The weights reported are n times the
    derivative by each reward, n w_i exp(λ w_i r_i) / sum_j exp(λ w_j r_j). The standard error is
    the delta method's. It is no fixed multiple when rewards are scaled, and shifted rewards do
    not shift it.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0; rewards of order one.
    Fails when: rewards are negative: products w r far below 0 get more weight, not less. For
    r >= 0 the bias is negative and grows with |λ|; the standard error says nothing of it.
    Missing support as for `IPW`.

    Parameters
    ----------
    lambda_ : λ < 0; ``theory`` is -1/√n, n being the number of units (rows, where there are
        none); ``mse``, ``slope`` or ``ocv`` choose among 30 values in geometric progression, the
        first next to 0.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Log-sum-exponential estimator for off-policy evaluation and learning (Behnamnia, Aminian,
    Aghaei, Shi, Tan and Rabiee, 2025), equation 4.

    Note: a notebook of the authors chooses λ by the true value; no rule here does.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> from ope_estimators.actions.weighting.ipw import IPW
    >>> smooth, plain = evaluate((LSEIPW(), IPW()), "saito-toy", replicates=1)
    >>> smooth.estimate < plain.estimate
    True
    """

    in_batches = False  # The logarithm of a mean is no mean of terms.
    tuned = "lambda_"

    lambda_: Annotated[float, Lt(0)] | Rule = "theory"

    def _answer(self, rows: WeightedRows) -> Solution:
        parameter = self._parameter(rows)
        estimate, share = _soft_minimum(rows, np.array([[parameter]]))
        terms = weighted_terms(share[0] / abs(parameter), rows.row_weight)
        error = standard_error(terms, rows.unit)
        return Solution(
            float(estimate[0]),
            error,
            rows.weight * share[0],
            {"lambda": parameter},
            # A large share belongs to a small product: λ is negative.
            -terms,
        )

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        share = _soft_minimum(rows, np.atleast_2d(parameter))[1]
        used: FloatArray = rows.weight * share
        return used

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        grid = product_grid(rows)
        if len(grid) == 1:
            return np.array([-1.0])
        return -np.concatenate([[1e-4 * grid[1]], grid[1:]])

    def _by_formula(self, rows: WeightedRows) -> float:
        return -1.0 / math.sqrt(rows.n_units)

    def _point(self, rows: WeightedRows, parameter: float) -> float:
        return float(_soft_minimum(rows, np.array([[parameter]]))[0][0])

    def _evaluate(
        self, rows: WeightedRows, candidates: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        estimates, errors = np.empty(len(candidates)), np.empty(len(candidates))
        for chunk in row_chunks(len(candidates), rows.n):
            estimates[chunk], share = _soft_minimum(rows, candidates[chunk, None])
            terms = weighted_terms(share / np.abs(candidates[chunk, None]), rows.row_weight)
            errors[chunk] = standard_errors(terms, rows.unit)
        return estimates, errors


def _soft_minimum(rows: WeightedRows, parameter: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Estimates, (k,), and the rows' shares n exp(λ w r) / sum exp(λ w r), (k, n)."""
    exponent = parameter * (rows.weight * rows.outcome)
    top = exponent.max(axis=1, keepdims=True)
    # log1p and expm1 keep the digits where λ is next to 0.
    mean = np.average(np.expm1(exponent - top), axis=1, weights=rows.row_weight)
    estimate: FloatArray = (top[:, 0] + np.log1p(mean)) / parameter[:, 0]
    share: FloatArray = np.exp(exponent - top) / (1.0 + mean[:, None])
    return estimate, share
