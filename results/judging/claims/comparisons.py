"""Statistics of lines of evidence: two estimators on the same data sets, slopes of a sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.error_distribution import heavy_tailed, squares
from ope_bench.statistics.paired_tests import LARGEST_LOG, signed_ranks, swap_test


@dataclass(frozen=True)
class Paired:
    """One paired comparison; None where undefined.

    Parameters
    ----------
    n : number of pairs.
    ratio : mean squared error after over before.
    low, high : 95 % interval of ``ratio``.
    standard_error : of the log ratio.
    p_greater, p_less : one-sided p-values of "the ratio exceeds (is below) 1".
    heavy_tailed : one replicate has so large a share of either side's squares that test and
        interval are unreliable with few replicates.
    """

    n: int
    ratio: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    p_greater: float
    p_less: float
    heavy_tailed: bool = False


def paired(after: FloatArray, before: FloatArray, *, level: float = 0.95) -> Paired:
    """Compare two estimators' errors on the same replicates.

    Parameters
    ----------
    after, before : (n,), errors (their sign does not matter).
    level : confidence level of the interval.
    """
    from scipy.special import stdtrit

    a, b = squares(after, before)
    n = len(a)
    if n == 0:
        return Paired(0, None, None, None, None, 1.0, 1.0)
    test = swap_test(a[None], b[None])
    log_ratio, se = float(test.log_ratio[0]), float(test.standard_error[0])
    p = float(test.p_greater[0]), float(test.p_less[0])
    heavy = bool(heavy_tailed(np.stack([a, b])).any())
    if a.sum() == 0 and b.sum() == 0:
        return Paired(n, 1.0, None, None, None, *p)
    ratio = math.exp(log_ratio) if abs(log_ratio) < LARGEST_LOG else None
    if ratio is None or n < 2 or not math.isfinite(se):
        return Paired(n, 0.0 if a.sum() == 0 else None, None, None, None, *p, heavy)
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * se
    low, high = (
        math.exp(end) if end < LARGEST_LOG else None
        for end in (log_ratio - reach, log_ratio + reach)
    )
    return Paired(n, ratio, low, high, se, *p, heavy)


@dataclass(frozen=True)
class Typical:
    """One comparison of typical errors; None where undefined.

    Parameters
    ----------
    n : number of pairs.
    closer : share of the data sets on which ``after`` is closer; equal errors count half.
    ratio : median absolute error after over before.
    p_greater, p_less : one-sided p-values of "after is larger (smaller)".
    """

    n: int
    closer: float | None
    ratio: float | None
    p_greater: float
    p_less: float


def typical(after: FloatArray, before: FloatArray) -> Typical:
    """Compare two estimators' typical errors on the same replicates.

    Parameters
    ----------
    after, before : (n,), errors.
    """
    n = len(after)
    if n == 0:
        return Typical(0, None, None, 1.0, 1.0)
    greater, less = signed_ranks(after[None], before[None])
    sign = np.sign(np.abs(before) - np.abs(after))
    medians = [float(np.median(np.abs(side))) for side in (after, before)]
    ratio = medians[0] / medians[1] if medians[1] > 0 else None
    return Typical(n, float((1 + sign).mean() / 2), ratio, float(greater[0]), float(less[0]))


# Growth of errors along a sweep: slopes of log error on the log of the swept parameter.


@dataclass(frozen=True)
class Slope:
    """A slope with its interval; None where undefined.

    Parameters
    ----------
    value : d log error / d log axis.
    low, high : 95 % interval.
    p : two-sided, of "the slope is zero".
    """

    value: float
    low: float | None
    high: float | None
    p: float


def rmse_slope(
    errors: FloatArray, axis: FloatArray, against: FloatArray | None = None, *, level: float = 0.95
) -> Slope:
    """Fit the slope of log RMSE on log axis, or of the log ratio of two RMSEs.

    Formula: s = sum_k c_k log(mean e_k^2) / 2 with the least-squares weights c of log axis;
    leaving replicate i out of all settings gives s_(i); the jackknife's standard error is that of
    the mean of the pseudo-values n s - (n - 1) s_(i); interval and p-value by t with n - 1
    degrees.

    Assumptions: replicates are independent; those of different settings may share their data.
    Fails when: tails are heavy, like every comparison of mean squares. With 10 replicates the
    5 % test rejects a true slope of zero in 6 to 10 % of simulated sweeps, where a percentile
    bootstrap does in 11 to 16 % (results/performance/statistics.md).

    Parameters
    ----------
    errors : (settings, n), NaN where a replicate has no estimate.
    axis : (settings,), positive.
    against : (settings, n), errors of the other estimator on the same data.
    level : confidence level of the interval.

    References
    ----------
    "Bias and confidence in not-quite large samples" (Tukey, 1958).

    >>> errors = np.random.default_rng(0).normal(size=(3, 50)) / np.sqrt([[10], [100], [1000]])
    >>> slope = rmse_slope(errors, np.array([10.0, 100.0, 1000.0]))
    >>> bool(slope.low < -0.5 < slope.high)
    True
    """
    from scipy.special import stdtr, stdtrit

    weights = _least_squares(axis)
    value, left_out = _log_rmse(errors, weights)
    if against is not None:
        other_value, other_left_out = _log_rmse(against, weights)
        value, left_out = value - other_value, left_out - other_left_out
    n = errors.shape[1]
    pseudo = n * value - (n - 1) * left_out
    error = float(pseudo.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    if not (math.isfinite(error) and error > 0):
        return Slope(value, None, None, 1.0)
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * error
    p = 2 * float(stdtr(n - 1, -abs(value) / error))
    return Slope(value, value - reach, value + reach, p)


def typical_slope(
    errors: FloatArray, axis: FloatArray, against: FloatArray | None = None
) -> Slope:
    """Fit the median slope of log |error| on log axis over replicates, tested by signed ranks.

    Formula: s_i = sum_k c_k log |e_ki| for each replicate i; Wilcoxon's signed-rank test of the
    s_i against zero. Replicates without an estimate at some setting are left out.

    Assumptions: under the null the s_i are symmetric about zero; replicates are independent.

    Parameters
    ----------
    errors, axis, against : as for `rmse_slope`.

    References
    ----------
    "Individual comparisons by ranking methods" (Wilcoxon, 1945).
    """
    from scipy.stats import wilcoxon

    weights = _least_squares(axis)
    with np.errstate(divide="ignore"):
        each = weights @ np.log(np.abs(errors))
        if against is not None:
            each = each - weights @ np.log(np.abs(against))
    each = each[np.isfinite(each)]
    if len(each) == 0 or not each.any():
        return Slope(float(each[0]) if len(each) else math.nan, None, None, 1.0)
    return Slope(float(np.median(each)), None, None, float(wilcoxon(each).pvalue))


def _least_squares(axis: FloatArray) -> FloatArray:
    """Return the weights of the least-squares slope on log axis: (settings,)."""
    x = np.log(np.asarray(axis, dtype=np.float64))
    x = x - x.mean()
    return np.asarray(x / np.square(x).sum(), dtype=np.float64)


def _log_rmse(errors: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
    """Return the slope with all replicates, and the slopes without each of them: (n,)."""
    squared = np.square(errors)
    answered = np.isfinite(squared)
    squared = np.where(answered, squared, 0.0)
    count = answered.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.log(squared.sum(axis=1, keepdims=True) / count)[:, 0] / 2
        without = np.log(_sum_of_others(squared) / (count - answered)) / 2
    return float(weights @ whole), np.asarray(weights @ without, dtype=np.float64)


def _sum_of_others(values: FloatArray) -> FloatArray:
    """Return each row's sum without each entry: (rows, n).

    Adds the sums of the entries before and after: subtracting the entry from the row's sum would
    lose all digits where the entry is most of the sum.
    """
    before, behind = np.zeros_like(values), np.zeros_like(values)
    before[:, 1:] = np.cumsum(values[:, :-1], axis=1)
    behind[:, :-1] = np.cumsum(values[:, :0:-1], axis=1)[:, ::-1]
    return before + behind
