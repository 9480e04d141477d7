"""Means over the rows of each unit, for intervals that count units."""

from __future__ import annotations

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray

__all__ = ["relative_sizes", "unit_means"]


def unit_means(
    first: FloatArray, second: FloatArray, unit: IntArray | None
) -> tuple[FloatArray, FloatArray]:
    """Sum the rows of each unit, scaled so that means over units are means over rows: (k,), (k,).

    Parameters
    ----------
    first, second : (n,)
    unit : (n,), integers; None or all different: the rows themselves.

    >>> unit_means(np.array([1.0, 2.0, 6.0]), np.ones(3), np.array([0, 0, 1]))
    (array([2., 4.]), array([1.33333333, 0.66666667]))
    """
    if unit is None or _ascend(unit):
        return first, second
    row = np.unique(unit, return_inverse=True)[1].reshape(-1)
    count = int(row.max()) + 1
    if count == len(first):
        return first, second
    scale = count / len(first)
    sums = (np.bincount(row, weights=part, minlength=count) for part in (first, second))
    of_first, of_second = ((scale * part).astype(np.float64) for part in sums)
    return of_first, of_second


def relative_sizes(unit: IntArray | None) -> tuple[float, float]:
    """Return the rows of the smallest and of the largest unit, over their mean number.

    Parameters
    ----------
    unit : (n,), integers; None: each row is its own unit.

    >>> relative_sizes(np.array([0, 0, 0, 1]))
    (0.5, 1.5)
    """
    if unit is None or _ascend(unit):
        return 1.0, 1.0
    size = np.unique(unit, return_counts=True)[1]
    # In integers first: the quotient of equal sizes is exactly 1.
    return len(size) * int(size.min()) / len(unit), len(size) * int(size.max()) / len(unit)


def _ascend(unit: IntArray) -> bool:
    """Return whether units ascend, so that each row is one."""
    return bool((unit[1:] > unit[:-1]).all())
