"""Inverse propensity weighting, with weights that may be clipped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Gt

from ope_bench import FloatArray, LinearScore, Solution
from ope_estimators.actions.weighting.action_weighting import GRID, TransformedWeights
from ope_estimators.actions.weighting.intervals import WeightIntervals
from ope_estimators.actions.weighting.weighted_rows import WeightedRows

__all__ = ["IPW", "ClippedWeights"]


class ClippedWeights(TransformedWeights):
    """Base: weights cut at a limit, u(w) = min(w, clip).

    Parameters
    ----------
    clip : largest weight; larger ones are cut. A number; None for no limit; ``root-n``, the
        square root of the number of units (rows, where there are none); or a rule that chooses
        among 30 limits in geometric progression, from the largest weight to the 5 % quantile of
        the positive ones: ``mse``, ``slope`` or ``ocv``.
    """

    tuned = "clip"

    clip: Annotated[float, Gt(0)] | Literal["root-n", "mse", "slope", "ocv"] | None = None

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        return np.minimum(rows.weight, parameter)

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        low, high = rows.positive_quantiles()[0], rows.largest
        return np.geomspace(high, low, GRID) if 0 < low < high else np.array([high or 1.0])

    def parameters(self, rows: WeightedRows) -> FloatArray:
        """Return the limit, or its candidates."""
        return np.array([math.inf]) if self.clip is None else super().parameters(rows)

    def _by_formula(self, rows: WeightedRows) -> float:
        return math.sqrt(rows.n_units)

    def _answer(self, rows: WeightedRows) -> Solution:
        if self.clip is None:
            return rows.solve(self._score(rows, rows.weight))
        answer = super()._answer(rows)
        answer.diagnostics["clipped_share"] = float((rows.weight > answer.used).mean())
        return answer


class IPW(WeightIntervals, ClippedWeights):
    """Logged rewards weighted by how much more often the target policy takes the action.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    With continuous actions the probabilities are densities. Rewards times c give c times the
    estimate; rewards plus c do not give the estimate plus c.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little: the variance is that of the weights. Where π0 is 0
    and π1 is not, it stays finite and is off by -E sum_a 1{π0(a|x) = 0} π1(a|x) q(x, a).
    Continuous actions and all weights zero: PositivityViolation.

    Parameters
    ----------
    clip : largest weight; larger ones are cut, which trades variance for bias toward zero. A
        number; ``root-n``, the square root of the number of units (rows, where there are none);
        ``mse``, ``slope`` or ``ocv`` to choose among 30 limits; None for no limit.
    normalize : divide by the sum of the clipped weights instead of n; then it is `IPWS`.
    interval : ``asymptotic``, ``empirical-likelihood``, ``guaranteed``, ``anytime`` or
        ``bootstrap``.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them: ``guaranteed`` needs a range, ``empirical-likelihood`` else takes that of the logs.
    level : of the interval.
    resamples : number of bootstrap samples.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    largest_unit : most rows of a unit, and upper_end : form of the upper end, of bets.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_calibration : of estimated ones: ``mixture``, or ``isotonic`` inverse weights.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    A generalization of sampling without replacement from a finite universe (Horvitz and
    Thompson, 1952). Truncated importance sampling (Ionides, 2008), for ``clip``. Logarithmic
    smoothing for pessimistic off-policy evaluation, selection and learning (Sakhi, Aouali,
    Alquier and Chopin, 2024), for ``root-n``; for rewards that are not binary that paper clips
    the products w r, here the weights are clipped.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IPW(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"normalize": False}

    normalize: bool = False

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        """The estimate is the mean of weight times reward, or that over the mean weight."""
        return LinearScore(weight=used, outcome=rows.outcome, normalized=self.normalize)
