"""Intervals of regrets: data sets resampled, settings as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.random.seeding import stream
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED

__all__ = ["Pair", "finite_exp", "ratio_interval", "ratio_intervals"]

RESAMPLES = 2_000

MOST_COUNTS, MULTIPLE = 1 << 21, 16
"""Counts that are in memory at once, 32 MB; resamples at once are a multiple of 16.

Of a row at the end of a matrix, a product of matrices may add in another order.
"""

Pair = tuple[FloatArray, FloatArray]
"""Errors of two rows on the same data sets."""


def finite_exp(log: float) -> float | None:
    """Return exp, None where it is no finite number."""
    value = math.exp(log) if log < 700 else math.inf
    return value if math.isfinite(value) else None


def ratio_interval(pairs: Sequence[Pair]) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the geometric mean of ratios of RMSEs over settings.

    A percentile interval; the data sets of each setting are resampled, the settings stay.

    Parameters
    ----------
    pairs : errors of two rows on the same data sets, for each setting.
    """
    return ratio_intervals([pairs])[0]


def ratio_intervals(
    rows: Sequence[Sequence[Pair]],
) -> list[tuple[float | None, float | None]]:
    """Return the `ratio_interval` of each row."""
    usable = [bool(pairs) and min(len(left) for left, _ in pairs) >= 2 for pairs in rows]
    totals = np.zeros((len(rows), RESAMPLES))
    for index in range(max(map(len, rows), default=0)):
        by_size: dict[int, list[int]] = {}
        for row, pairs in enumerate(rows):
            if usable[row] and index < len(pairs):
                by_size.setdefault(len(pairs[index][0]), []).append(row)
        for n, members in by_size.items():
            for drawn, counts in _resamples(index, n):
                for row in members:
                    totals[row, drawn] += _log_ratios(counts, *rows[row][index])
    return [
        _percentiles(total / len(pairs)) if wanted else (None, None)
        for total, pairs, wanted in zip(totals, rows, usable, strict=True)
    ]


def _resamples(index: int, n: int) -> Iterator[tuple[slice, FloatArray]]:
    """Yield parts of the resamples with how often each data set is drawn in each: (part, n).

    By place and size alone, so that rows on the same data sets share resamples.
    """
    rng = stream("regret", BOOTSTRAP_SEED, index, n)
    step = max(MULTIPLE, MOST_COUNTS // n // MULTIPLE * MULTIPLE)
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size)
        yield slice(start, start + size), counts.astype(np.float64)


def _log_ratios(counts: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the log ratio of the RMSEs of each resample: (resamples,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            0.5 * np.log(counts @ np.square(left)) - 0.5 * np.log(counts @ np.square(right))
        )


def _percentiles(logs: FloatArray) -> tuple[float | None, float | None]:
    logs = logs[np.isfinite(logs)]
    if not len(logs):
        return None, None
    low, high = np.quantile(logs, [0.025, 0.975])
    return finite_exp(float(low)), finite_exp(float(high))
