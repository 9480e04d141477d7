"""Policies of published experiments: one that knows the labels, softened classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ope_bench import DiscretePolicy, FloatArray, RowIndex

__all__ = ["LabelModel", "SofteningKind", "SoftenedPolicy"]

SofteningKind = Literal["friendly", "adversarial"]


class LabelModel:
    """A "classifier" that knows the label of each row of the data; of equal rows, the first's.

    Parameters
    ----------
    features : (n, d), of all rows.
    right : (n, n_actions), 1 for the labels of each row, 0 for others.
    faulty : labels in whose place it gives the next one, the first one for the last.
    """

    def __init__(
        self, features: FloatArray, right: FloatArray, faulty: Sequence[int] = ()
    ) -> None:
        self._index = RowIndex(features)
        self.classes_ = np.arange(right.shape[1])
        taken = np.isin(self.classes_, faulty)
        self._given = np.maximum(right * ~taken, np.roll(right * taken, 1, axis=1))

    def predict_proba(self, features: FloatArray) -> FloatArray:
        """Return 1 for the labels of each row, 0 for others: (k, n_actions)."""
        chosen: FloatArray = self._given[self._index(features)]
        return chosen


class SoftenedPolicy(DiscretePolicy):
    """The best label of a classifier, with a probability of its own in each row.

    With p(x) = alpha + beta u(x), u uniform between -1/2 and 1/2: a friendly policy plays the best
    label with probability p(x), an adversarial one with 1 - p(x). Others are equally likely.

    Parameters
    ----------
    model : a fitted classifier.
    n_actions : number of labels.
    kind, alpha, beta : as above.
    features : (n, d), rows of the data.
    uniform : (n,), their u.
    """

    def __init__(
        self,
        model: Any,
        n_actions: int,
        kind: SofteningKind,
        alpha: float,
        beta: float,
        features: FloatArray,
        uniform: FloatArray,
    ) -> None:
        super().__init__(n_actions)
        self.model = model
        drawn = np.clip(alpha + beta * uniform, 0.0, 1.0)
        self._best = drawn if kind == "friendly" else 1.0 - drawn
        self._index = RowIndex(features)

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_actions)."""
        chosen = self.model.classes_[self.model.predict_proba(context).argmax(axis=1)]
        best = self._best[self._index(context)]
        table = np.repeat((1.0 - best)[:, None] / (self.n_actions - 1), self.n_actions, axis=1)
        table[np.arange(len(context)), chosen] = best
        return table
