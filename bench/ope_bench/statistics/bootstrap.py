"""Intervals for the root mean squared error by the bootstrap.

Own code instead of ``scipy.stats.bootstrap``, which resamples row by row and has no studentized
form; here all rows of a board share one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.random.seeding import stream
from ope_bench.statistics.array_cache import array_cache
from ope_bench.statistics.tails import FEWEST, BoolArray, heavy_tailed

__all__ = [
    "BOOTSTRAP_SEED",
    "COVERED",
    "RESAMPLES",
    "Intervals",
    "resamples_of",
    "rmse_intervals",
]

BOOTSTRAP_SEED = 20250101
RESAMPLES, FEWEST_RESAMPLES = 10_000, 999

MOST_COUNTS = 2_000 * RESAMPLES
"""Most counts that are drawn, until there are `FEWEST_RESAMPLES`: drawing them takes the time."""

COVERED = (
    "95 % intervals hold for about 92 % of normal errors at 10 and 94 % at 20, for 80 % of "
    "heavy-tailed ones (student t 3) at any number, for 55 to 88 % of lognormal ones below 200"
)
"""Measured coverage of the intervals of boards: results/performance/statistics.md."""

MOST_ENTRIES = 1 << 21
"""Entries of the largest (resamples, rows) table: 16 MB of floats."""

KEPT_BYTES = 1 << 25
"""Counts that are kept for further boards: those of a hundred replicates are 1 MB."""


@dataclass(frozen=True)
class Intervals:
    """RMSE of rows with intervals; NaN where undefined.

    Parameters
    ----------
    rmse, low, high : (rows,)
    heavy_tailed : (rows,), see `ope_bench.statistics.tails.heavy_tailed`.
    """

    rmse: FloatArray
    low: FloatArray
    high: FloatArray
    heavy_tailed: BoolArray


def resamples_of(n: int) -> int:
    """Return the number of resamples of n replicates: fewer above 2,000, where they differ less.

    >>> resamples_of(100), resamples_of(4_000), resamples_of(1_000_000)
    (10000, 5000, 999)
    """
    return max(FEWEST_RESAMPLES, min(RESAMPLES, MOST_COUNTS // max(n, 1)))


def rmse_intervals(
    errors: FloatArray, *, level: float = 0.95, resamples: int | None = None
) -> Intervals:
    """Return the RMSE with a studentized bootstrap interval of the log mean square.

    Formula: theta = log m with m = mean e^2, se = s / (m sqrt(n)) with s the standard deviation
    of e^2; t* = (theta* - theta) / se* over resamples; the interval is
    [theta - t*_(1 - a/2) se, theta - t*_(a/2) se], halved and exponentiated.

    Assumptions: replicates are independent and the variance of e^2 is finite.
    Fails when: tails are heavy: the sample says nothing about a tail from which no replicate was
    drawn. Every row with at least `FEWEST` different replicates has an interval even so:
    withholding the intervals of rows that look heavy-tailed would leave those with the lowest
    coverage. Coverage by n and shape of errors is on the page results/performance/statistics.md.

    All rows share one matrix of resampling counts, drawn from a fixed seed and the number of
    replicates alone, so that a row's interval does not depend on its neighbors.

    Parameters
    ----------
    errors : (rows, n), finite.
    level : confidence level of the interval.
    resamples : number of bootstrap samples; None for `resamples_of` the replicates.

    References
    ----------
    "Bootstrap methods and their application" (Davison and Hinkley, 1997), section 5.2.1.

    >>> rng = np.random.default_rng(0)
    >>> intervals = rmse_intervals(rng.normal(size=(1, 100)))
    >>> bool(intervals.low[0] < intervals.rmse[0] < intervals.high[0])
    True
    """
    errors = np.atleast_2d(errors)
    rows, n = errors.shape
    resamples = resamples or resamples_of(n)
    missing = np.full(rows, np.nan)
    if n == 0:
        return Intervals(missing, missing, missing, np.zeros(rows, dtype=np.bool_))
    # In units of the largest error, so that squares neither overflow nor underflow.
    scale = np.abs(errors).max(axis=1)
    scale[scale == 0] = 1.0
    squared = np.square(errors / scale[:, None])
    rmse = scale * np.sqrt(squared.mean(axis=1))
    low, high = missing.copy(), missing.copy()
    # Errors of equal size, zero included: resamples do not vary, and an interval of width 0 would
    # claim certainty.
    varied = squared.max(axis=1) - squared.min(axis=1) > 1e-12
    usable = np.flatnonzero(varied) if n >= FEWEST else np.empty(0, dtype=np.intp)
    step = max(1, MOST_ENTRIES // resamples)
    for start in range(0, len(usable), step):
        part = usable[start : start + step]
        bounds = _studentized(squared[part], level, resamples)
        # A bound that overflows counts as undefined.
        with np.errstate(over="ignore"):
            low[part], high[part] = scale[part] * np.exp(bounds / 2)
    return Intervals(rmse, low, high, heavy_tailed(squared))


def _studentized(squared: FloatArray, level: float, resamples: int) -> FloatArray:
    """Return the bounds (2, rows) of the log mean square."""
    n = squared.shape[1]
    mean = squared.mean(axis=1)
    theta = np.log(mean)
    # Centered first, so that the variance of a resample is no difference of large sums.
    centered = squared - mean[:, None]
    shift, variance = _resampled_means((centered, np.square(centered)), resamples)
    variance -= np.square(shift)
    np.maximum(variance, 0.0, out=variance)
    t = mean[:, None] + shift
    with np.errstate(divide="ignore", invalid="ignore"):
        # sqrt(n - 1) on both sides: (n / (n - 1)) of the variance and 1 / n of the mean's.
        variance /= n - 1
        relative_error = np.sqrt(variance, out=variance)
        relative_error /= t
        np.log(t, out=t)
        t -= theta[:, None]
        t /= relative_error
    finite = np.isfinite(t)
    if not finite.all():
        # A resample of one repeated value has no spread: t* is infinite, or zero at the center.
        t = np.where(finite, t, np.where(shift == 0, 0.0, np.copysign(np.inf, shift)))
    t.sort(axis=1)
    error = np.sqrt(np.square(centered).sum(axis=1) / (n * (n - 1))) / mean
    upper, lower = (_quantile(t, share) for share in ((1 + level) / 2, (1 - level) / 2))
    return np.stack([theta - upper * error, theta - lower * error])


def _quantile(ordered: FloatArray, share: float) -> FloatArray:
    """Return the order statistic k of B with k / (B + 1) nearest to ``share``: (rows,)."""
    resamples = ordered.shape[1]
    return np.asarray(ordered[:, round(share * (resamples + 1)) - 1], dtype=np.float64)


def _resampled_means(tables: Sequence[FloatArray], resamples: int) -> list[FloatArray]:
    """Return the mean of each resample of each table: (rows, resamples), tables (rows, n)."""
    n = tables[0].shape[1]
    drawn = [np.empty((len(values), resamples)) for values in tables]
    step = max(1, 2 * MOST_ENTRIES // n)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        counts = _counts(n, start, size).astype(np.float64)
        for values, means in zip(tables, drawn, strict=True):
            np.matmul(values, counts, out=means[:, start : start + size])
    for means in drawn:
        means /= n
    return drawn


@array_cache(KEPT_BYTES)
def _counts(n: int, start: int, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Count how often each replicate is drawn in each resample: (n, size), at most 4 MB."""
    rng = stream("bootstrap", BOOTSTRAP_SEED, n, start)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=size)
    # A count above 255 has probability below 10^-500.
    return np.ascontiguousarray(counts.T, dtype=np.uint8)
