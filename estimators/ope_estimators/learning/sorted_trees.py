"""Gradient boosting of scikit-learn on large tables: trees from columns that are sorted once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["MANY_COLUMNS", "MANY_ROWS", "SortedColumns", "fit_sorted", "is_covered"]

MANY_ROWS = 6_000
"""Rows from which columns are sorted once, instead of in every node of every tree."""

MANY_COLUMNS = 16
"""Columns from which they are: there time is saved, but ties between columns end otherwise."""

RELEASES = ((1, 9),)
"""Releases of scikit-learn whose boosting calls the methods that are used here."""

FREE = ("loss", "learning_rate", "n_estimators", "max_depth", "random_state")
"""Parameters that may differ from their defaults."""

LOSSES = ("squared_error", "log_loss")

GAP = np.float32(1e-7)
"""Values of a column that are no further apart are not separated, as in scikit-learn."""

EPSILON = float(np.finfo(np.float64).eps)
"""A node is not split whose variance is no larger, as in scikit-learn."""


def is_covered(model: Any, features: FloatArray, outcome: FloatArray | IntArray) -> bool:
    """Return whether a model's trees are those that `SortedColumns` grows.

    Parameters
    ----------
    model : gradient boosting of scikit-learn.
    features : (k, d)
    outcome : (k,), of two classes or of numbers.
    """
    import sklearn

    if len(features) < MANY_ROWS or features.shape[1] < MANY_COLUMNS:
        return False
    if features.dtype != np.float32:
        return False
    if tuple(map(int, sklearn.__version__.split(".")[:2])) not in RELEASES:
        return False
    given, default = vars(model), vars(type(model)())
    if given.keys() != default.keys() or given["loss"] not in LOSSES:
        return False
    if any(given[name] != default[name] for name in given.keys() - FREE):
        return False
    if given["loss"] == "log_loss" and len(np.unique(outcome)) != 2:
        return False
    return isinstance(given["max_depth"], int) and bool(np.isfinite(features).all())


def fit_sorted(
    model: Any, features: FloatArray, outcome: FloatArray | IntArray, monitor: Any
) -> Any:
    """Fit gradient boosting, each tree by `SortedColumns`; return the model.

    Rows are divided as by scikit-learn; where two columns divide a node's rows alike, the first of
    them is taken, and a random one there. So a classifier's predictions of the rows that it was
    fitted to have the bits of scikit-learn, but for ties of different divisions; sums in the
    leaves of a regressor are rounded otherwise. Other rows differ where columns tied, as they do
    with another seed.

    Parameters
    ----------
    model : covered, see `is_covered`.
    features : (k, d), in single precision.
    outcome : (k,)
    monitor : as for scikit-learn.
    """
    from sklearn.ensemble._gb import _update_terminal_regions
    from sklearn.tree import DecisionTreeRegressor

    columns = SortedColumns(features)

    def stage(
        i: int,
        rows: FloatArray,
        y: FloatArray,
        raw: FloatArray,
        weight: Any,
        mask: Any,
        *_: Any,
        **__: Any,
    ) -> FloatArray:
        loss = model._loss
        slope = -loss.gradient(y_true=y, raw_prediction=raw, sample_weight=None).reshape(-1)
        tree = DecisionTreeRegressor(max_depth=model.max_depth)
        tree.n_features_in_, tree.n_outputs_ = features.shape[1], 1
        tree.max_features_ = features.shape[1]
        tree.tree_ = columns.tree(slope, model.max_depth)
        _update_terminal_regions(
            loss, tree.tree_, rows, y, slope, raw, weight, mask, model.learning_rate
        )
        model.estimators_[i, 0] = tree
        return raw

    model._fit_stage = stage
    try:
        return model.fit(features, outcome, monitor=monitor)
    finally:
        del model._fit_stage


class SortedColumns:
    """Rows in the order of each column, for trees that compare every split.

    Columns of 0 and 1 have one split each, for which the sums over their ones suffice.

    Parameters
    ----------
    features : (k, d), in single precision.

    >>> rows = np.array([[0.0], [1.0], [3.0], [4.0]], dtype=np.float32)
    >>> tree = SortedColumns(rows).tree(np.array([0.0, 0.0, 1.0, 1.0]), max_depth=1)
    >>> tree.threshold.tolist(), tree.value[:, 0, 0].tolist()
    ([2.0, -2.0, -2.0], [0.5, 0.0, 1.0])
    """

    def __init__(self, features: FloatArray) -> None:
        self._features = features
        indicator = ((features == 0) | (features == 1)).all(axis=0)
        self._ones, self._others = np.flatnonzero(indicator), np.flatnonzero(~indicator)
        row, column = np.nonzero(features[:, self._ones])
        self._filled = row.astype(np.int32), column.astype(np.int32)
        table = np.ascontiguousarray(features[:, self._others].T)
        self._values = table
        self._order = np.argsort(table, axis=1, kind="stable").astype(np.int32)
        # Where all values are apart, no place between two rows is left out.
        ordered = np.take_along_axis(table, self._order, axis=1)
        self._apart = np.asarray((ordered[:, 1:] > ordered[:, :-1] + GAP).all(axis=1))

    def tree(self, outcome: FloatArray, max_depth: int) -> Any:
        """Grow a regression tree of the outcome, (k,); return it as scikit-learn holds it."""
        from sklearn.tree._tree import NODE_DTYPE, Tree

        nodes: list[tuple[Any, ...]] = []
        values: list[float] = []

        def grow(order: Any, rows: Any, filled: Any, depth: int) -> int:
            own = outcome[rows]
            n, total = len(own), float(own.sum())
            variance = float(own @ own) / n - (total / n) ** 2
            number = len(nodes)
            nodes.append((-1, -1, -2, -2.0, variance, n, n, 0))
            values.append(total / n)
            if depth == max_depth or n < 2 or variance <= EPSILON:
                return number
            feature, threshold = self._best(outcome, order, filled, n, total)
            if feature < 0:
                return number
            left = self._features[:, feature] <= threshold
            some = left[rows]
            n_left = int(some.sum())
            inside = left[order]
            row, column = filled
            kept = left[row]
            # Each column has as many rows on one side as any other.
            children = [
                grow(
                    order[inside == side].reshape(len(order), n_left if side else n - n_left),
                    rows[some == side],
                    (row[kept == side], column[kept == side]),
                    depth + 1,
                )
                for side in (True, False)
            ]
            more = n_left > n - n_left
            nodes[number] = (*children, feature, threshold, variance, n, n, more)
            return number

        everyone = np.arange(len(self._features), dtype=np.int32)
        grow(self._order, everyone, self._filled, 0)
        tree = Tree(self._features.shape[1], np.array([1], dtype=np.intp), 1)
        state = np.array(nodes, dtype=NODE_DTYPE)
        held = np.array(values).reshape(-1, 1, 1)
        tree.__setstate__(
            {"max_depth": max_depth, "node_count": len(nodes), "nodes": state, "values": held}
        )
        return tree

    def _best(
        self, outcome: FloatArray, order: Any, filled: Any, n: int, total: float
    ) -> tuple[int, float]:
        """Return the column and threshold of the split of the least squares; -1 without any."""
        best, found = -math.inf, (-1, 0.0)
        count = np.arange(1.0, n)
        for j, rows in enumerate(order):
            below = np.cumsum(outcome[rows])[:-1]
            above = total - below
            gain: FloatArray = np.square(below) / count + np.square(above) / count[::-1]
            if not self._apart[j]:
                value = self._values[j][rows]
                gain[value[1:] <= value[:-1] + GAP] = -np.inf
            at = int(gain.argmax())
            if gain[at] > best:
                value = self._values[j][rows[at : at + 2]]
                best, found = float(gain[at]), (int(self._others[j]), _middle(*value))
        if len(self._ones):
            row, column = filled
            above = np.asarray(np.bincount(column, outcome[row], len(self._ones)), np.float64)
            size = np.asarray(np.bincount(column, minlength=len(self._ones)), np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.square(total - above) / (n - size) + np.square(above) / size
            gain[(size == 0) | (size == n)] = -np.inf
            at = int(gain.argmax())
            if gain[at] > best:
                found = int(self._ones[at]), 0.5
        return found


def _middle(low: Any, high: Any) -> float:
    """Return the threshold between two values, as scikit-learn does in single precision."""
    return float(low) / 2.0 + float(high) / 2.0
