"""Gradient boosting of XGBoost's exact trees with scikit-learn's sizes, on sparse rows."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ope_bench import FloatArray, IntArray, row_chunks

__all__ = ["ExactBoostingRegressor"]


class _Leaves(NamedTuple):
    """The leaves of all trees: value (l,), and the conditions on the way to each, (l, depth).

    Condition ``i`` of a leaf holds where (features[column] < threshold) == below; a shorter way
    has column -1.
    """

    value: npt.NDArray[np.float32]
    column: IntArray
    threshold: npt.NDArray[np.float32]
    below: npt.NDArray[np.bool_]


HALF = np.nextafter(np.float32(0.5), np.float32(1.0))
"""An indicator below it is 0."""


class ExactBoostingRegressor:
    """Boosting of regression trees that compare every split, as scikit-learn's ``gbm`` does.

    XGBoost grows the trees by its exact search, without penalties, from the mean. Columns of 0 and
    1 are handed over without their zeros: there is one way to split them. Splits are those of
    scikit-learn but for ties and for rounding, since gradients have single precision here. Of
    equally good splits XGBoost takes the first column and scikit-learn a random one, so the
    columns are handed over in a random order: always the first would lean to the context, which
    shifts what is predicted at points that were hardly logged.

    Parameters
    ----------
    n_estimators, max_depth, learning_rate : as for scikit-learn's `GradientBoostingRegressor`.
    random_state : seed of the order of the columns.

    Attributes
    ----------
    split_columns : the columns in which some tree splits, ascending.

    >>> rows = np.arange(6.0)[:, None]
    >>> model = ExactBoostingRegressor(n_estimators=200).fit(rows, rows[:, 0] ** 2)
    >>> model.predict(rows).round(2).tolist()
    [0.0, 1.0, 4.0, 9.0, 16.0, 25.0]
    """

    def __init__(
        self,
        n_estimators: int = 100,
        max_depth: int = 3,
        learning_rate: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.random_state = random_state

    structured_rows = 200
    """Rows of the fit from which `everywhere` is faster than `predict`."""

    def fit(
        self, features: FloatArray, outcome: FloatArray, sample_weight: FloatArray | None = None
    ) -> ExactBoostingRegressor:
        """Grow the trees.

        Parameters
        ----------
        features : (k, d)
        outcome : (k,)
        sample_weight : (k,)
        """
        import xgboost

        self._indicator = ((features == 0) | (features == 1)).all(axis=0)
        self._order = np.random.default_rng(self.random_state).permutation(features.shape[1])
        self._place = np.argsort(self._order)
        self._base = float(np.average(outcome, weights=sample_weight))
        self.__dict__.pop("_leaves", None)
        params = {
            "tree_method": "exact",
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "reg_lambda": 0.0,
            "min_child_weight": 1e-9,
            "base_score": self._base,
            "nthread": 1,
        }
        rows = self._rows(features)
        data = xgboost.DMatrix(rows, outcome, weight=sample_weight, nthread=1)
        self._model = xgboost.train(params, data, self.n_estimators)
        names = self._model.get_score(importance_type="weight")
        self.split_columns: IntArray = np.sort(self._order[[int(one[1:]) for one in names]])
        return self

    def predict(self, features: Any) -> FloatArray:
        """Return the expected outcome of each row of a dense or sparse table: (k,)."""
        values = self._model.inplace_predict(self._rows(features))
        return np.asarray(values, dtype=np.float64)

    def everywhere(self, context: FloatArray, points: FloatArray) -> FloatArray:
        """Predict each context beside each point, in the order of `np.ndindex`: (k * p,).

        A tree adds the value of a leaf where the context fulfills its conditions and the point
        does, so that all pairs are a product of two matrices. Equal to `predict` but for rounding.

        Parameters
        ----------
        context : (k, d_context), the first columns of the features.
        points : (p, d), the others.
        """
        reached = self._reached(points, context.shape[1]) * self._leaves.value[:, None]
        out = np.empty((len(context), len(points)))
        for rows in row_chunks(len(context), len(reached) + len(points)):
            np.matmul(
                self._reached(context[rows], 0).T, reached, out=out[rows], casting="same_kind"
            )
        out += np.float32(self._base)
        return out.reshape(-1)

    def _reached(self, table: FloatArray, first: int) -> npt.NDArray[np.float32]:
        """Return 1 where rows fulfill a leaf's conditions on these columns: (l, k).

        Parameters
        ----------
        table : (k, d), the columns from ``first`` on.
        """
        leaves, columns = self._leaves, np.ascontiguousarray(table.T, dtype=np.float32)
        found = np.ones((len(leaves.value), len(table)), dtype=bool)
        for column, threshold, below in zip(*(part.T for part in leaves[1:]), strict=True):
            (own,) = np.nonzero((column >= first) & (column < first + len(columns)))
            less = columns[column[own] - first] < threshold[own, None]
            found[own] &= less == below[own, None]
        return found.astype(np.float32)

    @cached_property
    def _leaves(self) -> _Leaves:
        model = json.loads(self._model.save_raw("json"))["learner"]["gradient_booster"]["model"]
        values, ways = [], []
        for tree in model["trees"]:
            names = ("left_children", "right_children", "split_indices", "split_conditions")
            left, right, place, condition = (tree[name] for name in names)
            # In order: a node comes before its children.
            way: list[list[tuple[int, float, bool]]] = [[]] * len(left)
            for node, column in enumerate(self._order[place]):
                if left[node] < 0:
                    values.append(condition[node])
                    ways.append(way[node])
                    continue
                threshold, swapped = condition[node], False
                if self._indicator[column]:
                    # Of indicators 0 is missing, and goes the way that the tree has learnt.
                    of_zero, of_one = bool(tree["default_left"][node]), threshold > 1
                    swapped = of_one and not of_zero
                    threshold = HALF if of_zero != of_one else np.inf if of_zero else -np.inf
                way[left[node]] = [*way[node], (column, threshold, not swapped)]
                way[right[node]] = [*way[node], (column, threshold, swapped)]
        depth = max(1, *map(len, ways))
        full = [way + [(-1, 0.0, True)] * (depth - len(way)) for way in ways]
        column, threshold, below = (
            np.array([[c[i] for c in way] for way in full]) for i in range(3)
        )
        return _Leaves(np.array(values, np.float32), column, threshold.astype(np.float32), below)

    def _rows(self, features: Any) -> Any:
        """Return the rows as XGBoost reads them: in `_order`, an indicator is 1 or missing."""
        from scipy.sparse import csr_matrix, issparse

        if issparse(features):
            features = csr_matrix(features)  # type: ignore[call-overload]  # any sparse format
            value = features.data.astype(np.float32)
            value[self._indicator[features.indices] & (value <= 0.5)] = np.nan
            column = self._place[features.indices]
            return csr_matrix((value, column, features.indptr), shape=features.shape)
        table = np.asarray(features, dtype=np.float32)
        if not self._indicator.any():
            return table[:, self._order]
        # scikit-learn's trees split an indicator at one half.
        held = ~self._indicator | (table > 0.5)
        start = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
        column = self._place[np.nonzero(held)[1]]
        return csr_matrix((table[held], column, start), shape=table.shape)
