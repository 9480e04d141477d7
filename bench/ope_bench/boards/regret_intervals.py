"""Intervals of regrets: data sets resampled, settings as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.random.seeding import stream
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED

__all__ = ["Pair", "finite_exp", "ratio_interval", "ratio_intervals"]

RESAMPLES = 2_000

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
        counts: dict[int, IntArray] = {}
        for total, pairs, wanted in zip(totals, rows, usable, strict=True):
            if not wanted or index >= len(pairs):
                continue
            left, right = pairs[index]
            n = len(left)
            if n not in counts:
                # By place and size alone, so that rows on the same data sets share resamples.
                rng = stream("regret", BOOTSTRAP_SEED, index, n)
                counts[n] = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
            with np.errstate(divide="ignore", invalid="ignore"):
                total += 0.5 * np.log(counts[n] @ np.square(left)) - 0.5 * np.log(
                    counts[n] @ np.square(right)
                )
    return [
        _percentiles(total / len(pairs)) if wanted else (None, None)
        for total, pairs, wanted in zip(totals, rows, usable, strict=True)
    ]


def _percentiles(logs: FloatArray) -> tuple[float | None, float | None]:
    logs = logs[np.isfinite(logs)]
    if not len(logs):
        return None, None
    low, high = np.quantile(logs, [0.025, 0.975])
    return finite_exp(float(low)), finite_exp(float(high))
