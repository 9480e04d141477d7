"""The empirical likelihood estimator."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ope_bench import FloatArray, Solution, standard_error, weighted_terms
from ope_estimators.actions.weighting.intervals import WeightIntervals
from ope_estimators.actions.weighting.ipw import ActionWeighting
from ope_estimators.actions.weighting.weighted_rows import WeightedRows

__all__ = ["ELIPW"]


class ELIPW(WeightIntervals, ActionWeighting):
    """Weighted rewards under the most likely distribution in which weights average to one.

        V̂ = sum_i p_i w_i r_i + (1 - sum_i p_i w_i) r̄,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    The probabilities p are as near to 1/n as sum p = 1 and sum p w = 1 allow; rows that were not
    logged may have a share. Where the mean weight is below 1, the weights lack mass: p = 1/n, and
    the missing mass gets the mean logged reward r̄. Else part of the probability goes to rows of
    weight 0. The estimate is an average of rewards with non-negative weights that sum to one: it
    stays in their range, shifts by c when all rewards do and scales with them. To first order it
    is importance weighting with w as control variate, which gives the standard error.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little: large weights are under-weighted, a bias of order 1/n
    toward the mean logged reward that can be large in small logs. Missing support: the missing
    mass has the mean logged reward, right or wrong.

    Parameters
    ----------
    divergence : what "near" means: ``cressie-read`` is the squared distance (power -2), in closed
        form, with one row of weight 0 beside the logged ones; ``likelihood`` maximizes
        sum ln p_i, by a search in one dimension.
    interval : ``asymptotic``, ``empirical-likelihood``, ``guaranteed``, ``anytime`` or
        ``bootstrap``.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them: ``guaranteed`` needs a range, ``empirical-likelihood`` else takes that of the logs.
    level : of the interval.
    resamples : number of bootstrap samples.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Empirical likelihood for contextual bandits (Karampatziakis, Langford and Mineiro, 2020),
    section 3. Empirical likelihood estimators as released by the authors leave probabilities of
    ``cressie-read`` negative where weights are far apart; here they are at least 0.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(ELIPW(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    in_batches = False  # Its probabilities need all rows.
    divergence: Literal["cressie-read", "likelihood"] = "cressie-read"

    def _answer(self, rows: WeightedRows) -> Solution:
        weight, counts = rows.weight, rows.row_weight
        counted = weight if counts is None else counts * weight
        n = float(rows.n if counts is None else counts.sum())
        if counted.sum() < n:
            probability = np.full(rows.n, 1.0 / n)
        elif self.divergence == "cressie-read":
            probability = least_squares_probabilities(weight, counts)
        else:
            probability = most_likely_probabilities(weight, counts)
        missing = max(0.0, 1.0 - float(probability @ counted))
        used = n * probability * weight + missing
        value = float(np.average(used * rows.outcome, weights=counts))
        terms = _control_variate_terms(rows)
        error = standard_error(terms, rows.unit)
        return Solution(value, error, used, {"missing_mass_filled": missing}, terms)


def least_squares_probabilities(
    weight: FloatArray, counts: FloatArray | None = None
) -> FloatArray:
    """Probabilities next to equal ones in which weights average to one: (n,).

    They minimize sum (p - 1/(n+1))² over the rows and one more of weight 0, with p >= 0,
    sum p = 1 and sum p w = 1; the mean weight is at least one. The minimum is p = max(0, c + d w)
    with d < 0. Rows with large weights whose p would be negative are set to 0, and the rest is
    solved again; of the others it then takes two sums. With ``counts`` each row stands for so
    many, and has the probability of one of them.
    """
    probability = np.zeros(len(weight))
    kept = np.arange(len(weight))
    while True:
        some = weight[kept]
        often = np.ones(len(some)) if counts is None else counts[kept]
        size, total = float(often.sum()) + 1, float((often * some).sum())
        square = float((often * some) @ some)
        determinant = size * square - total**2
        level, slope = (square - total) / determinant, (size - total) / determinant
        solved = level + slope * some
        if solved.min() >= 0:
            probability[kept] = solved
            return probability
        kept = kept[solved >= 0]


def most_likely_probabilities(weight: FloatArray, counts: FloatArray | None = None) -> FloatArray:
    """Probabilities that maximize the empirical likelihood: 1 / (n + β (w_i - 1)), (n,).

    The mean weight is at least one. β in [0, n] solves sum (w - 1) p = 0; where no such β leaves
    all p at most 1, the largest is taken, and what lacks of the mass has weight 0.
    """
    from scipy.optimize import brentq

    often = np.ones(len(weight)) if counts is None else counts
    n, excess = float(often.sum()), weight - 1.0

    def moment(beta: float) -> float:
        return float((often * excess / (n + beta * excess)).sum())

    low = float(excess.min())
    # 1 / (n + β (w - 1)) <= 1 at the least weight.
    most = min(float(n), (n - 1) / -low) if low < 0 else float(n)
    if moment(0.0) <= 0:
        beta = 0.0
    elif moment(most) >= 0:
        beta = most
    else:
        beta = float(brentq(moment, 0.0, most, xtol=1e-12))
    probability: FloatArray = 1.0 / (n + beta * excess)
    return probability


def _control_variate_terms(rows: WeightedRows) -> FloatArray:
    """w r - c (w - 1), c being the slope of w r on w, but for a constant: (n,)."""
    counts = rows.row_weight
    terms = rows.weight * rows.outcome
    centered = rows.weight - np.average(rows.weight, weights=counts)
    counted = centered if counts is None else counts * centered
    square = float(counted @ centered)
    factor = float(counted @ terms) / square if square > 0 else 0.0
    return weighted_terms(terms - factor * centered, counts)
