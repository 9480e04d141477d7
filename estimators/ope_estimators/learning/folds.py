"""Folds by unit, for cross-fitting: rows that depend on each other are in the same fold."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray, View

__all__ = ["fold_of", "folds", "logged_folds", "multiplicity", "target_folds"]


def fold_of(n: int, k: int, rng: np.random.Generator) -> IntArray:
    """Assign ``n`` units to folds of nearly equal sizes: (n,), values in [0, k).

    With fewer units than folds, some folds are empty.

    >>> fold_of(5, 2, np.random.default_rng(0)).tolist()
    [0, 0, 1, 0, 1]
    """
    return rng.permutation(np.arange(n) % k).astype(np.int64)


MOST_REPEATS = 20
"""Rows per logged row, on average, in fits to rows that stand for several."""


def multiplicity(row_weight: FloatArray) -> IntArray:
    """How often each row enters a fit so that it counts as the rows that it stands for: (n,).

    Whole weights are the numbers themselves, so that a row of weight 2 is that row twice to every
    learner. Others are rounded such that sums over neighbors stay right; where rows stand for more
    than `MOST_REPEATS` each on average, all weights are scaled down.

    Parameters
    ----------
    row_weight : (n,), as `View.row_weight`.

    >>> multiplicity(np.array([1.0, 2.0, 1.5, 1.5])).tolist()
    [1, 2, 2, 1]
    """
    scale = min(1.0, MOST_REPEATS / float(row_weight.mean()))
    # Half of a row above whole sums, so that rounding of the sums moves none.
    last = np.floor(np.cumsum(row_weight * scale) + 0.5).astype(np.int64)
    return np.diff(last, prepend=0)


def logged_folds(unit: IntArray, k: int, rng: np.random.Generator) -> IntArray:
    """Assign logged rows to folds, by unit: (n,).

    Folds have nearly equal numbers of units, so their numbers of rows may differ.

    >>> logged_folds(np.array([7, 3, 7, 5]), 2, np.random.default_rng(0)).tolist()
    [1, 0, 1, 0]
    """
    if (unit[1:] > unit[:-1]).all():
        return fold_of(len(unit), k, rng)
    units, row = np.unique(unit, return_inverse=True)
    return fold_of(len(units), k, rng)[row.reshape(-1)]


def target_folds(view: View, logged: IntArray) -> IntArray:
    """Return the fold of each target row whose unit is in the logs, -1 elsewhere: (m,).

    Without a target sample m is 0.

    Parameters
    ----------
    view : source of the units.
    logged : (n,), folds of the logged rows, equal within a unit.
    """
    if not view.has_target_sample:
        return np.empty(0, dtype=np.int64)
    units, first = np.unique(view.fold_unit, return_index=True)
    at = np.minimum(np.searchsorted(units, view.target_fold_unit), len(units) - 1)
    return np.where(units[at] == view.target_fold_unit, logged[first[at]], -1)


def folds(view: View, k: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Assign logged and target rows to folds, by unit: (n,), (m,).

    Where both samples share contexts, row i of both is in the same fold: otherwise a classifier
    could identify a held-out row by the context of the other. The same holds for all rows of a
    unit, in both samples.
    """
    logged = logged_folds(view.fold_unit, k, rng)
    target = target_folds(view, logged)
    others = target < 0
    if others.any():
        target[others] = logged_folds(view.target_fold_unit[others], k, rng)
    return logged, target
