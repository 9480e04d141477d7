"""Heavy tails: rows in which one replicate has an unusually large share of the squares.

This marks rows but never withholds their intervals: a sample without a draw from the tail looks
light-tailed, so showing only unmarked rows would show the intervals with the lowest coverage.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray

__all__ = ["FEWEST", "MARK_LEVEL", "heavy_tailed", "jointly_heavy_tailed", "largest_share"]

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
    from scipy.special import betainccinv

    return float(betainccinv(0.5, (n - 1) / 2, MARK_LEVEL / n))


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
