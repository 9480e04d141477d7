"""Folds by row group, for cross-fitting."""

from __future__ import annotations

import numpy as np

from ope_bench.arrays import IntArray
from ope_bench.view import View

__all__ = ["fold_of", "folds"]


def fold_of(n: int, k: int, rng: np.random.Generator) -> IntArray:
    """Fold of each of ``n`` rows, sizes as equal as they can be: (n,), values in [0, k).

    With fewer rows than folds, some folds are empty.

    >>> fold_of(5, 2, np.random.default_rng(0)).tolist()
    [0, 0, 1, 0, 1]
    """
    return rng.permutation(np.arange(n) % k).astype(np.int64)


def folds(view: View, k: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Folds of the logged and of the target rows: (n,), (m,).

    Where both samples share contexts, row i of both lies in the same fold: were they apart, a
    classifier could recognise a held-out row by the context of its twin.
    """
    logged = fold_of(view.n, k, rng)
    return logged, logged if view.shared_contexts else fold_of(view.m, k, rng)
