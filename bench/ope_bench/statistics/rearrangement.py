"""p-values from rearranged data, with as many draws as the level requires.

`scipy.stats.permutation_test` uses the full number of draws for every row; here only rows with
p-values near the level need it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from ope_bench.contracts.arrays import FloatArray

__all__ = ["KEPT_BYTES", "BoolArray", "RatioTest", "Sample", "p_values"]

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

FIRST_DRAWS = 9_999
PROMISING = 20
"""Rows whose statistic is reached by at most this many of the first draws get the full number."""

BLOCK_ENTRIES = 1 << 18
"""Entries of a block of arrangements, (draws, width).

The block size depends on the width alone, so that a row's p-value does not depend on the number of
rows.

"""

KEPT_BYTES = 24 * 8 * BLOCK_ENTRIES
"""Arrangements that are kept for further tests, of each kind: 24 whole blocks, 50 MB."""


@dataclass(frozen=True)
class RatioTest:
    """Log ratios of mean squared errors, one entry per row.

    Parameters
    ----------
    log_ratio : (rows,), log of mean squared error after over before.
    standard_error : (rows,), of ``log_ratio``, by the delta method.
    statistic : (rows,), studentized distance from the null ratio.
    p_greater, p_less : (rows,), one-sided.
    """

    log_ratio: FloatArray
    standard_error: FloatArray
    statistic: FloatArray
    p_greater: FloatArray
    p_less: FloatArray


class Sample(Protocol):
    """Rows of data whose arrangements are equally likely under the null."""

    @property
    def enumerated(self) -> int:
        """Return the number of arrangements if all are enumerated; 0 if they are drawn."""

    @property
    def width(self) -> int:
        """Return the length of an arrangement."""

    def among(self, chosen: BoolArray) -> Self:
        """Select rows."""

    def arrangements(self, start: int, size: int, stage: str) -> FloatArray:
        """Return arrangements (size, width), a function of the arguments alone."""

    def statistic(self, arranged: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return statistic, log ratio and standard error of arrangements: (size, rows) each."""


def p_values(sample: Sample, observed: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return one-sided p-values of the observed statistics, from above and from below.

    Parameters
    ----------
    sample : the data to rearrange.
    observed : (rows,), the observed statistics.
    level : family-wise level with which the p-values will be compared; it only sets the number of
        arrangements that are drawn.
    """
    rows = len(observed)
    if sample.enumerated:
        total = sample.enumerated
        greater, less = _reached(sample, observed, total, "first")
        return greater / total, less / total
    greater, less = _reached(sample, observed, FIRST_DRAWS, "first")
    wanted = math.ceil(10 * rows / level)
    promising = np.minimum(greater, less) <= PROMISING
    # More draws do not help a row whose values are all equal.
    promising &= (observed != 0) & (wanted > FIRST_DRAWS)
    if promising.any():
        more = _reached(sample.among(promising), observed[promising], wanted, "full")
        greater[promising], less[promising] = more
    drawn = np.where(promising, wanted, FIRST_DRAWS)
    return (greater + 1) / (drawn + 1), (less + 1) / (drawn + 1)


def _reached(
    sample: Sample, observed: FloatArray, draws: int, stage: str
) -> tuple[FloatArray, FloatArray]:
    """Count the arrangements that reach the observed statistic, from above and from below."""
    step = max(16, min(1024, BLOCK_ENTRIES // sample.width))
    # A tolerance, so that in spite of rounding the observed arrangement counts as reached.
    slack = 1e-9 * np.where(np.isfinite(observed), np.abs(observed), 0.0)
    greater, less = np.zeros(len(observed)), np.zeros(len(observed))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        t, _, _ = sample.statistic(sample.arrangements(start, size, stage))
        greater += (t >= observed - slack).sum(axis=0)
        less += (t <= observed + slack).sum(axis=0)
    return greater, less
