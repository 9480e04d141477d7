"""A click model fitted to a log, additive in user, position and item."""

from __future__ import annotations

import numpy as np

from ope_bench import Column, FloatArray, IntArray, row_chunks
from ope_environments.open_bandit.layout import PolicyLog

__all__ = ["ClickModel", "fit_clicks"]


class ClickModel:
    """q(x, a) = 1 / (1 + exp(-(user(x) + item(a)))).

    Parameters
    ----------
    user : (n_rows,), log odds of each row's user and position.
    item : (n_items,), log odds of each item.
    position : (3,), the part of ``user`` that is its position's.
    """

    def __init__(self, user: FloatArray, item: FloatArray, position: FloatArray) -> None:
        self.user = user
        self.item = item
        self.position = position

    def table(self, rows: slice) -> FloatArray:
        """Return the click probability of every item at some rows: (k, n_items)."""
        return _sigmoid(self.user[rows, None] + self.item)

    def at(self, row: IntArray, item: IntArray) -> FloatArray:
        """Return the click probability of pairs of a row and an item: (k,)."""
        return _sigmoid(self.user[row] + self.item[item])

    def mean(self) -> float:
        """Return the mean over rows and items, the uniform policy's value."""
        total = sum(
            float(self.table(rows).sum()) for rows in row_chunks(len(self.user), len(self.item))
        )
        return total / (len(self.user) * len(self.item))

    def with_mean(self, mean: float) -> ClickModel:
        """Return the model with its intercept shifted so that it has this mean."""
        low, high = -40.0, 40.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            moved = ClickModel(self.user + middle, self.item, self.position)
            low, high = (middle, high) if moved.mean() < mean else (low, middle)
        return ClickModel(self.user + 0.5 * (low + high), self.item, self.position)


def fit_clicks(log: PolicyLog, columns: tuple[Column, ...], n_items: int) -> ClickModel:
    """Fit a ridge logistic regression on one-hot user features, position and item.

    An item that was never shown has the average item's log odds.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    items = np.arange(n_items, dtype=np.float64)
    encoder = OneHotEncoder(categories=[*(np.array(c.categories) for c in columns), items])
    design = encoder.fit_transform(np.column_stack([log.context, log.item]))
    model = LogisticRegression(max_iter=5000).fit(design, log.click)
    weights = model.coef_[0]
    width = len(weights) - n_items
    user = design[:, :width] @ weights[:width] + model.intercept_[0]
    # The position is the last column before the items.
    position = weights[width - len(columns[-1].categories) : width].astype(np.float64)
    item = weights[width:].astype(np.float64)
    return ClickModel(np.asarray(user, dtype=np.float64), item, position)


def _sigmoid(log_odds: FloatArray) -> FloatArray:
    return 1.0 / (1.0 + np.exp(-log_odds))
