"""Intervals for the root mean squared error by the bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.seeding import stream

__all__ = [
    "BOOTSTRAP_SEED",
    "FEWEST",
    "RESAMPLES",
    "Intervals",
    "heavy_tailed",
    "jointly_heavy_tailed",
    "rmse_intervals",
]

BOOTSTRAP_SEED = 20250101
RESAMPLES = 10_000
HEAVY_SHARE = 0.25
"""Share of the sum of squares in one replicate from which on a row counts as heavy-tailed."""

FEWEST = 8
"""Fewest replicates for an interval."""

MOST_ENTRIES = 1 << 21
"""Entries of the largest (resamples, rows) table: 16 MB of floats."""


@dataclass(frozen=True)
class Intervals:
    """RMSE of rows and its interval; NaN where a figure does not exist.

    Parameters
    ----------
    rmse, low, high : (rows,)
    heavy_tailed : (rows,), one replicate carries more than a quarter of the sum of squares.
    """

    rmse: FloatArray
    low: FloatArray
    high: FloatArray
    heavy_tailed: np.ndarray[tuple[int], np.dtype[np.bool_]]


def heavy_tailed(squared: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether one replicate carries more than a quarter of a row's sum of squares.

    Few replicates say nothing about tails: rows with less than `FEWEST` are never marked.

    Parameters
    ----------
    squared : (rows, n), squared errors.
    """
    rows, n = squared.shape
    if n < FEWEST:
        return np.zeros(rows, dtype=np.bool_)
    return np.asarray(squared.max(axis=1) > HEAVY_SHARE * squared.sum(axis=1), dtype=np.bool_)


def jointly_heavy_tailed(
    one: FloatArray, other: FloatArray
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether one replicate of either carries more than a quarter of their mean sum of squares.

    However the errors of a row are dealt out over the two sides, this mark stays as it is. So a
    swap or permutation test is as exact over the rows that are not marked as it is over all;
    marking each side on its own would pick out rows whose errors are small by chance.

    Parameters
    ----------
    one, other : (rows, n), squared errors; on different replicates n may differ.
    """
    rows = len(one)
    if min(one.shape[1], other.shape[1]) < FEWEST:
        return np.zeros(rows, dtype=np.bool_)
    total = (one.sum(axis=1) + other.sum(axis=1)) / 2
    largest = np.maximum(one.max(axis=1), other.max(axis=1))
    return np.asarray(largest > HEAVY_SHARE * total, dtype=np.bool_)


def rmse_intervals(
    errors: FloatArray, *, level: float = 0.95, resamples: int = RESAMPLES
) -> Intervals:
    """RMSE with a bias-corrected and accelerated bootstrap interval, computed on its logarithm.

    Formula: theta = log(mean e^2) / 2; the interval is the range of the resampled thetas between
    the levels Phi(z0 + (z0 + z) / (1 - a (z0 + z))), z0 from the share of resamples below theta,
    the acceleration a from the jackknife.

    Assumptions: replicates are independent, their squares have moments.
    Fails when: tails are heavy (coverage .16 to .55 in simulation); such rows, and rows with less
    than `FEWEST` replicates, get no interval. Replicates are few: of normal errors 83 % are
    covered at 10, 88 % at 20, 92 % at 30 and 94 % at 100.

    All rows share one matrix of resampling counts, drawn from a fixed seed and the number of
    replicates alone, so that a row's interval does not depend on its neighbours.

    Parameters
    ----------
    errors : (rows, n), finite.
    level : of the interval.
    resamples : bootstrap samples.

    References
    ----------
    "Better bootstrap confidence intervals" (Efron, 1987), equation 2.3.

    >>> rng = np.random.default_rng(0)
    >>> found = rmse_intervals(rng.normal(size=(1, 100)))
    >>> bool(found.low[0] < found.rmse[0] < found.high[0])
    True
    """
    errors = np.atleast_2d(errors)
    rows, n = errors.shape
    missing = np.full(rows, np.nan)
    if n == 0:
        return Intervals(missing, missing, missing, np.zeros(rows, dtype=np.bool_))
    # In units of the largest error, so that squares neither overflow nor vanish.
    scale = np.abs(errors).max(axis=1)
    scale[scale == 0] = 1.0
    squared = np.square(errors / scale[:, None])
    rmse = scale * np.sqrt(squared.mean(axis=1))
    heavy = heavy_tailed(squared)
    low, high = missing.copy(), missing.copy()
    # Errors of one size, zero among them: a resample cannot vary, and an interval of width 0
    # would claim certainty.
    varied = squared.max(axis=1) - squared.min(axis=1) > 1e-12
    usable = np.flatnonzero(~heavy & varied) if n >= FEWEST else np.empty(0, dtype=np.intp)
    step = max(1, MOST_ENTRIES // resamples)
    for start in range(0, len(usable), step):
        part = usable[start : start + step]
        bounds = _bca(squared[part], level, resamples)
        low[part], high[part] = scale[part] * np.exp(bounds)
    return Intervals(rmse, low, high, heavy)


def _bca(squared: FloatArray, level: float, resamples: int) -> FloatArray:
    """(2, rows) bounds of log RMSE."""
    from scipy.special import ndtr, ndtri

    n = squared.shape[1]
    total = squared.sum(axis=1)
    theta = 0.5 * np.log(total / n)
    drawn = _resampled(squared, resamples)
    drawn.sort(axis=1)
    below = (drawn < theta[:, None]).sum(axis=1) + 0.5 * (drawn == theta[:, None]).sum(axis=1)
    share = np.clip(below / resamples, 0.5 / resamples, 1 - 0.5 / resamples)
    z0 = ndtri(share)
    left_out = 0.5 * np.log((total[:, None] - squared) / (n - 1))
    gap = left_out.mean(axis=1, keepdims=True) - left_out
    acceleration = (gap**3).sum(axis=1) / (6 * (gap**2).sum(axis=1) ** 1.5)
    bounds = np.empty((2, len(squared)))
    for side, tail in enumerate(((1 - level) / 2, (1 + level) / 2)):
        z = z0 + ndtri(tail)
        position = ndtr(z0 + z / (1 - acceleration * z)) * (resamples - 1)
        floor = np.clip(np.floor(position).astype(np.intp), 0, resamples - 2)
        rank = np.arange(len(squared))
        lower, upper = drawn[rank, floor], drawn[rank, floor + 1]
        bounds[side] = lower + (position - floor) * (upper - lower)
    return bounds


def _resampled(squared: FloatArray, resamples: int) -> FloatArray:
    """(rows, resamples) log RMSE of each resample."""
    n = squared.shape[1]
    drawn = np.empty((len(squared), resamples))
    step = max(1, 2 * MOST_ENTRIES // n)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn[:, start : start + size] = squared @ _counts(n, start, size).astype(np.float64)
    # A resample of nothing but zeros has a log RMSE of minus infinity.
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * np.log(drawn / n), dtype=np.float64)


@lru_cache(maxsize=32)
def _counts(n: int, start: int, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """(n, size): how often each replicate is drawn in each resample; at most 4 MB."""
    rng = stream("bootstrap", BOOTSTRAP_SEED, n, start)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=size)
    # Drawn 255 times is a matter of 1 in 10^500.
    return np.ascontiguousarray(counts.T, dtype=np.uint8)
