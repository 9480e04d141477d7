"""Counts that decrease with rank like a shifted power law, with an exact total."""

from __future__ import annotations

import numpy as np

from ope_bench import IntArray

__all__ = ["rank_sizes"]


def rank_sizes(n: int, total: int, smallest: int, *, exponent: float, shift: float) -> IntArray:
    """Return ``max(smallest, floor(A (rank + shift) ** -exponent))`` with sum ``total``.

    Parameters
    ----------
    n : number of counts.
    total : their sum, at least ``n * smallest``.
    smallest : least count.
    exponent, shift : of the law.

    >>> rank_sizes(6, 30, 1, exponent=1.0, shift=0.0)
    array([13,  6,  4,  3,  2,  2])
    """
    law = (np.arange(1, n + 1) + shift) ** -exponent

    def counts(scale: float) -> IntArray:
        sizes: IntArray = np.maximum(smallest, np.floor(scale * law)).astype(np.int64)
        return sizes

    low, high = 0.0, 2.0 * total / law[-1]
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if counts(middle).sum() <= total else (low, middle)
    sizes = counts(low)
    # Flooring leaves a remainder smaller than n, which is added to the largest.
    sizes[: total - int(sizes.sum())] += 1
    return sizes
