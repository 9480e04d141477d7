"""Logarithmic smoothing of weighted rewards."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import FloatArray, Interval, View, logarithmic_interval
from ope_estimators.actions.weighting.intervals import WeightIntervals
from ope_estimators.actions.weighting.ipw import (
    TransformedWeights,
    zero_and_geometric,
)
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.rules import Rule

__all__ = ["LSIPW"]


class LSIPW(WeightIntervals, TransformedWeights):
    """Logarithms of one plus the weighted rewards: logarithmic smoothing.

        V̂ = (1/n) sum_i ln(1 + λ w_i r_i) / λ,   w_i = π1(a_i|x_i) / π0(a_i|x_i),   r_i >= 0

    λ -> 0 gives `IPW`. For r >= 0 the bias lies in [-λ S, 0], S = E[(w r)² / (1 + λ w r)]. The
    paper has r >= 0; here a negative reward adds -ln(1 + λ w |r|) / λ, so that the estimate of
    -r is minus that of r. The weights reported are ln(1 + λ w |r|) / (λ |r|). It is no fixed
    multiple when rewards are scaled, and shifted rewards do not shift it.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0; rewards of order one.
    Fails when: rewards are far from 0: all products w r are then shrunk, and the estimate is
    pulled toward 0. The standard error says nothing of this bias. Missing support as for `IPW`.

    Parameters
    ----------
    lambda_ : λ >= 0; ``theory`` is 1/√n, n being the number of units (rows, where there are
        none); ``mse``, ``slope`` or ``ocv`` choose among 0 and 29 values in geometric progression.
    interval : ``asymptotic``, ``empirical-likelihood``, ``anytime``, ``bootstrap``, or
        ``guaranteed``, which here is the bound of logarithmic smoothing at λ = 1/√n, whatever
        ``lambda_`` is.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them: ``guaranteed`` needs a range, ``empirical-likelihood`` else takes that of the logs.
    level : of the interval.
    resamples : number of bootstrap samples.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Logarithmic smoothing for pessimistic off-policy evaluation, selection and learning (Sakhi,
    Aouali, Alquier and Chopin, 2024), equations 13 to 15.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(LSIPW(), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["lambda"] == 1000 ** -0.5
    True
    """

    tuned = "lambda_"

    lambda_: Annotated[float, Ge(0)] | Rule = "theory"

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        product = parameter * (rows.weight * np.abs(rows.outcome))
        # ln(1 + x)/x is 1 at x = 0.
        shrunk = np.divide(
            np.log1p(product), product, out=np.ones_like(product), where=product > 0
        )
        used: FloatArray = rows.weight * shrunk
        return used

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        return product_grid(rows)

    def _by_formula(self, rows: WeightedRows) -> float:
        return 1.0 / math.sqrt(rows.n_units)

    def _guaranteed(self, rows: WeightedRows, view: View, limits: tuple[float, float]) -> Interval:
        return logarithmic_interval(
            rows.weight,
            rows.outcome,
            reward_range=limits,
            unit=rows.unit,
            level=self.level,
            largest_unit=self.largest_unit,
        )


def product_grid(rows: WeightedRows) -> FloatArray:
    """Zero, then values that bend the largest products w|r| by a percent up to all of them."""
    product = rows.weight * np.abs(rows.outcome)
    some = product > 0
    if not some.any():
        return np.zeros(1)
    share = None if rows.row_weight is None else rows.row_weight[some]
    mean = float(np.average(product[some], weights=share))
    return zero_and_geometric(0.01 / float(product.max()), 10.0 / mean)
