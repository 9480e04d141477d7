"""p-values from rearranged data, to as many draws as the level asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from ope_bench.arrays import FloatArray

__all__ = ["BoolArray", "RatioTest", "Sample", "p_values"]

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

FIRST_DRAWS = 9_999
PROMISING = 20
"""Rows whose statistic is reached by at most so many of the first draws get the full number."""

BLOCK_ENTRIES = 1 << 18
"""Entries of a block of arrangements, (draws, width); it depends on the width alone, so that a
row's p-value does not depend on how many rows are judged with it.
"""


@dataclass(frozen=True)
class RatioTest:
    """Log ratios of mean squared errors, one entry a row.

    Parameters
    ----------
    log_ratio : (rows,), log of mean squared error after over before.
    standard_error : (rows,), of ``log_ratio``, by the delta method.
    statistic : (rows,), studentised distance from the null ratio.
    p_greater, p_less : (rows,), one-sided.
    """

    log_ratio: FloatArray
    standard_error: FloatArray
    statistic: FloatArray
    p_greater: FloatArray
    p_less: FloatArray


class Sample(Protocol):
    """Rows of data that could as well have come in other arrangements."""

    @property
    def enumerated(self) -> int:
        """How many arrangements there are, if all are tried; 0 if they are drawn."""

    def among(self, chosen: BoolArray) -> Self:
        """These rows only."""

    def arrangements(self, start: int, size: int, stage: str) -> FloatArray:
        """(size, width), always the same for the same arguments."""

    def statistic(self, arranged: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(size, rows) each: statistic, log ratio and standard error of every arrangement."""


def p_values(sample: Sample, seen: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """One-sided p-values of the observed statistics, from above and from below.

    Parameters
    ----------
    sample : what is rearranged.
    seen : (rows,), as observed.
    level : family-wise level that the p-values will be held against; it only sets how many
        arrangements are drawn.
    """
    rows = len(seen)
    if sample.enumerated:
        total = sample.enumerated
        greater, less = _reached(sample, seen, total, "first")
        return greater / total, less / total
    greater, less = _reached(sample, seen, FIRST_DRAWS, "first")
    wanted = math.ceil(10 * rows / level)
    promising = np.minimum(greater, less) <= PROMISING
    # A row whose data are all alike cannot be told apart by more draws.
    promising &= (seen != 0) & (wanted > FIRST_DRAWS)
    if promising.any():
        more = _reached(sample.among(promising), seen[promising], wanted, "full")
        greater[promising], less[promising] = more
    drawn = np.where(promising, wanted, FIRST_DRAWS)
    return (greater + 1) / (drawn + 1), (less + 1) / (drawn + 1)


def _reached(
    sample: Sample, seen: FloatArray, draws: int, stage: str
) -> tuple[FloatArray, FloatArray]:
    """How many arrangements reach the observed statistic, from above and from below."""
    width = sample.arrangements(0, 1, stage).shape[1]
    step = max(16, min(1024, BLOCK_ENTRIES // width))
    # Rounding must not decide whether the data as observed reach themselves.
    slack = 1e-9 * np.where(np.isfinite(seen), np.abs(seen), 0.0)
    greater, less = np.zeros(len(seen)), np.zeros(len(seen))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        t, _, _ = sample.statistic(sample.arrangements(start, size, stage))
        greater += (t >= seen - slack).sum(axis=0)
        less += (t <= seen + slack).sum(axis=0)
    return greater, less
