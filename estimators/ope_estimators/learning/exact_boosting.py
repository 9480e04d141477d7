"""Gradient boosting of XGBoost's exact trees with scikit-learn's sizes, on sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["ExactBoostingRegressor"]


class ExactBoostingRegressor:
    """Boosting of regression trees that compare every split, as scikit-learn's ``gbm`` does.

    XGBoost grows the trees by its exact search, without penalties, from the mean. Columns of 0 and
    1 are handed over without their zeros: there is one way to split them. Splits are those of
    scikit-learn but for ties, whose order is random there, and for rounding, since gradients have
    single precision here.

    Parameters
    ----------
    n_estimators, max_depth, learning_rate : as for scikit-learn's `GradientBoostingRegressor`.

    Attributes
    ----------
    split_columns : the columns in which some tree splits, ascending.

    >>> rows = np.arange(6.0)[:, None]
    >>> model = ExactBoostingRegressor(n_estimators=200).fit(rows, rows[:, 0] ** 2)
    >>> model.predict(rows).round(2).tolist()
    [0.0, 1.0, 4.0, 9.0, 16.0, 25.0]
    """

    def __init__(
        self, n_estimators: int = 100, max_depth: int = 3, learning_rate: float = 0.1
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate

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
        params = {
            "tree_method": "exact",
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "reg_lambda": 0.0,
            "min_child_weight": 1e-9,
            "base_score": float(np.average(outcome, weights=sample_weight)),
            "nthread": 1,
        }
        rows = self._rows(features)
        data = xgboost.DMatrix(rows, outcome, weight=sample_weight, nthread=1)
        self._model = xgboost.train(params, data, self.n_estimators)
        names = self._model.get_score(importance_type="weight")
        self.split_columns: IntArray = np.array(sorted(int(one[1:]) for one in names), np.int64)
        return self

    def predict(self, features: Any) -> FloatArray:
        """Return the expected outcome of each row of a dense or sparse table: (k,)."""
        values = self._model.inplace_predict(self._rows(features))
        return np.asarray(values, dtype=np.float64)

    def _rows(self, features: Any) -> Any:
        """Return the rows as XGBoost reads them: an indicator is 1 or missing."""
        from scipy.sparse import csr_matrix, issparse

        if issparse(features):
            features = csr_matrix(features)  # type: ignore[call-overload]  # any sparse format
            value = features.data.astype(np.float32)
            value[self._indicator[features.indices] & (value <= 0.5)] = np.nan
            return csr_matrix((value, features.indices, features.indptr), shape=features.shape)
        table = np.asarray(features, dtype=np.float32)
        if not self._indicator.any():
            return table
        # scikit-learn's trees split an indicator at one half.
        held = ~self._indicator | (table > 0.5)
        start = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
        return csr_matrix((table[held], np.nonzero(held)[1], start), shape=table.shape)
