"""The distribution of an estimator's errors: bootstrap intervals, tails, summaries."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from statistics import median
from threading import Lock
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.random import stream

# Keep the arrays that a function made last, up to a number of bytes.

Ts = TypeVarTuple("Ts")
A = TypeVar("A", bound=npt.NDArray[Any])


def array_cache(most_bytes: int) -> Callable[[Callable[[*Ts], A]], Callable[[*Ts], A]]:
    """Decorate a function of hashable, positional arguments that returns an array.

    The arrays returned are read-only. Those used longest ago are forgotten first, and an array
    larger than ``most_bytes`` is not kept.

    Parameters
    ----------
    most_bytes : size of all kept arrays together.

    >>> import numpy as np
    >>> drawn = array_cache(100)(lambda n: np.zeros(n))
    >>> drawn(10) is drawn(10), drawn(20) is drawn(20)
    (True, False)
    """

    def decorate(make: Callable[[*Ts], A]) -> Callable[[*Ts], A]:
        kept: OrderedDict[Hashable, A] = OrderedDict()
        lock = Lock()

        @wraps(make)
        def cached(*args: *Ts) -> A:
            with lock:
                if args in kept:
                    kept.move_to_end(args)
                    return kept[args]
            made = make(*args)
            made.setflags(write=False)
            if made.nbytes > most_bytes:
                return made
            with lock:
                kept[args] = made
                held = sum(one.nbytes for one in kept.values())
                while held > most_bytes:
                    held -= kept.popitem(last=False)[1].nbytes
            return made

        return cached

    return decorate


@cache
def special_function(name: str) -> Any:
    """Return a function of scipy.special, if possible without the package around it.

    The functions lie in one extension module. The package itself imports most of NumPy, which
    takes a third of the time of a short run.

    >>> round(float(special_function("ndtri")(0.975)), 3)
    1.96
    """
    package = "scipy.special"
    spec = importlib.util.find_spec(package)
    if package not in sys.modules and spec is not None:
        # Stands for the package, which is not executed, while the extension module is imported.
        sys.modules[package] = importlib.util.module_from_spec(spec)
        with contextlib.suppress(ImportError, AttributeError):
            try:
                return getattr(importlib.import_module(f"{package}._ufuncs"), name)
            finally:
                del sys.modules[package]
    return getattr(importlib.import_module(package), name)


# Heavy tails: rows in which one replicate has an unusually large share of the squares.

FEWEST = 8
"""Fewest replicates for an interval or a verdict on tails."""

MARK_LEVEL = 0.01
"""Share of rows that are marked if errors are normal."""

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]


@lru_cache(maxsize=64)
def largest_share(n: int) -> float:
    """Return the upper 1 % point of the largest square over the sum of n squared normal errors.

    Formula: with errors of mean zero each share is Beta(1/2, (n - 1)/2); the point g solves
    n P(share > g) = .01, which is exact for g >= 1/2 and an upper bound below.

    References
    ----------
    "The distribution of the largest of a set of estimated variances as a fraction of their
    total" (Cochran, 1941).

    >>> [round(largest_share(n), 2) for n in (10, 20, 100)]
    [0.72, 0.48, 0.14]
    """
    return float(special_function("betainccinv")(0.5, (n - 1) / 2, MARK_LEVEL / n))


def heavy_tailed(squared: FloatArray) -> BoolArray:
    """Return whether a replicate's share of a row's squares exceeds `largest_share`: (rows,).

    Rows with fewer than `FEWEST` replicates are never marked.

    Parameters
    ----------
    squared : (rows, n), squared errors.
    """
    rows, n = squared.shape
    if n < FEWEST:
        return np.zeros(rows, dtype=np.bool_)
    limit = largest_share(n) * squared.sum(axis=1)
    return np.asarray(squared.max(axis=1) > limit, dtype=np.bool_)


def jointly_heavy_tailed(first: FloatArray, second: FloatArray) -> BoolArray:
    """Return whether one replicate has too large a share of both sides' squares: (rows,).

    The errors of both sides form one row of n1 + n0. The mark does not change when errors are
    permuted between the sides, so a swap or permutation test is as exact over the unmarked rows as
    over all rows.

    Parameters
    ----------
    first, second : (rows, n1) and (rows, n0), squared errors.
    """
    return heavy_tailed(np.concatenate([first, second], axis=1))


# Intervals for the root mean squared error by the bootstrap.

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
    heavy_tailed : (rows,), see `ope_bench.statistics.error_distribution.heavy_tailed`.
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
    found: FloatArray = ordered[:, round(share * (ordered.shape[1] + 1)) - 1]
    return found


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


# Distribution of errors: center, spread, and the distribution of their squares.


@dataclass(frozen=True)
class ErrorSummary:
    """Summary statistics of one row's errors; None without finite errors.

    Parameters
    ----------
    n : number of errors.
    bias : mean error.
    sd : standard deviation of the errors, with n - 1 in the denominator; None for n < 2.
    median_absolute_error, rmse : typical and root mean square size.
    quantiles : of the absolute error, at .05, .25, .5, .75, .95.
    worst : largest absolute error.
    cvar : mean of the worst tenth of the squared errors.
    """

    n: int
    bias: float | None = None
    sd: float | None = None
    median_absolute_error: float | None = None
    rmse: float | None = None
    quantiles: tuple[float, ...] = ()
    worst: float | None = None
    cvar: float | None = None


def mean(values: FloatArray) -> float:
    """Return the mean of at least one finite number, also where their sum overflows.

    >>> mean(np.array([1.5e308, 1.5e308]))
    1.5e+308
    """
    with np.errstate(over="ignore"):
        direct = float(values.mean())
    return direct if math.isfinite(direct) else float((values / len(values)).sum())


def root_mean_square(values: FloatArray) -> float:
    """Return the root mean square of at least one finite number, also where squares overflow.

    >>> root_mean_square(np.array([1e200, -1e200]))
    1e+200
    """
    with np.errstate(over="ignore"):
        direct = float(np.sqrt(np.square(values).mean()))
    if math.isfinite(direct):
        return direct
    unit = float(np.abs(values).max())
    return unit * float(np.sqrt(np.square(values / unit).mean()))


def scaled_rms(values: FloatArray) -> float:
    """Return the root mean square of at least one finite number, in units of the largest.

    Squares then neither overflow nor underflow; `root_mean_square` differs in the last bit.

    >>> scaled_rms(np.array([3e-200, -3e-200]))
    3e-200
    """
    size = np.abs(values)
    unit = float(size.max()) or 1.0
    return unit * float(np.sqrt(np.square(size / unit).mean()))


LARGEST_ROOT = 1e150
"""Errors up to this size have squares that can be summed."""


def squares(*errors: FloatArray) -> tuple[FloatArray, ...]:
    """Return squares of several estimators' errors in a common unit, for comparisons by ratios.

    The unit is 1 unless a square would overflow.

    >>> [a.tolist() for a in squares(np.array([2.0]), np.array([-3.0]))]
    [[4.0], [9.0]]
    """
    largest = max(float(np.abs(one).max(initial=0.0)) for one in errors)
    unit = largest if largest > LARGEST_ROOT else 1.0
    return tuple(np.square(one / unit) for one in errors)


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def summarize(errors: FloatArray) -> ErrorSummary:
    """Summarize finite errors.

    Parameters
    ----------
    errors : (n,), estimate minus truth.

    >>> summary = summarize(np.array([1.0, -1.0, 2.0]))
    >>> summary.median_absolute_error, summary.worst
    (1.0, 2.0)
    """
    n = len(errors)
    if n == 0:
        return ErrorSummary(0)
    size = np.abs(errors)
    largest = float(size.max())
    # In units of the largest error, so that squares neither overflow nor underflow.
    unit = largest or 1.0
    worst_tenth = unit * cvar(np.square(size / unit)) * unit
    return ErrorSummary(
        n,
        bias=mean(errors),
        sd=unit * float((errors / unit).std(ddof=1)) if n > 1 else None,
        median_absolute_error=median(size.tolist()),
        rmse=scaled_rms(errors),
        quantiles=tuple(map(float, np.quantile(size, LEVELS))),
        worst=largest,
        cvar=worst_tenth if math.isfinite(worst_tenth) else None,
    )


def squared_error_cdf(squared: FloatArray, at: FloatArray) -> FloatArray:
    """Return the empirical distribution function of squared errors at ``at``.

    Parameters
    ----------
    squared : (n,)
    at : (k,)

    >>> squared_error_cdf(np.array([1.0, 4.0]), np.array([0.5, 1.0, 9.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(
        np.searchsorted(np.sort(squared), at, side="right") / len(squared), dtype=np.float64
    )


def area_under_cdf(squared: FloatArray, limit: float) -> float:
    """Return the area under the distribution function of squared error on [0, limit], over limit.

    Formula: the integral of F is the mean of (limit - e^2)_+; 1 is perfect.

    References
    ----------
    "Evaluating the robustness of off-policy evaluation" (Saito, Udagawa, Kiyohara, Mogi, Narita
    and Tateno, 2021), section 4.

    >>> area_under_cdf(np.array([0.0, 0.5, 3.0]), 1.0)
    0.5
    """
    return float(np.maximum(limit - squared, 0.0).mean()) / limit


def cvar(squared: FloatArray, level: float = 0.9) -> float:
    """Return the mean of the largest ``1 - level`` share of the squared errors.

    Formula: the integral of the quantile function over (level, 1), divided by 1 - level; the
    order statistic on the boundary has fractional weight.

    References
    ----------
    "Optimization of conditional value-at-risk" (Rockafellar and Uryasev, 2000).

    >>> cvar(np.arange(1.0, 11.0), 0.85)
    9.666666666666666
    """
    ordered = np.sort(squared)[::-1]
    n = len(ordered)
    # The k-th largest covers the quantiles from (k - 1) / n to k / n.
    filled = np.clip((1 - level) * n - np.arange(n), 0.0, 1.0)
    return float((filled * ordered).sum() / filled.sum())
