"""Features of pairs of a context and an action or embedding, the inputs of reward models."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from ope_bench import FloatArray, IntArray, View, row_chunks
from ope_estimators.features.actions import ActionFeatures, ActionFeaturesName, design, encoded

__all__ = ["PairFeatures", "Points"]

Points = FloatArray | IntArray
"""Actions (k,) or embeddings (k, d_embedding)."""


class PairFeatures:
    """Features of pairs of a context and an action or embedding.

    Parameters
    ----------
    view : source of the columns and actions.
    on : the second part of the pair.
    action_features : how actions become features.
    max_width : most features of an action's embedding; one that has more is left out.

    Attributes
    ----------
    n_context : number of features of the context.
    n_points : number of actions; 0 where points are continuous.
    """

    def __init__(
        self,
        view: View,
        on: Literal["action", "embedding"],
        action_features: ActionFeaturesName,
        max_width: float = math.inf,
    ) -> None:
        self._columns = view.schema.context
        self.n_points = (view.n_actions or 0) if on == "action" else 0
        self._points: Callable[[Any], FloatArray]
        self._actions: ActionFeatures | None = None
        if on == "embedding":
            self._points = partial(encoded, view.schema.embedding)
        else:
            self._points = self._actions = ActionFeatures(view, action_features, max_width)
        self.n_context = encoded(self._columns, view.context[:1]).shape[1]

    def __call__(self, context: FloatArray, points: Points) -> FloatArray:
        """Return the features of each pair, a new array: (k, n_features)."""
        if self._actions is None:
            return design(encoded(self._columns, context), self._points(points))
        width = self.n_context + self._actions.width
        if width == 0:
            return design(np.empty((len(context), 0)))
        table = np.empty((len(context), width))
        table[:, : self.n_context] = encoded(self._columns, context)
        self._actions.write(points, table[:, self.n_context :])
        return table

    def apart(self, context: FloatArray, n_actions: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the features of contexts, (k, d_context), and of all actions, (n_actions, d).

        None where points are embeddings, or the actions' features are too large for a chunk.
        """
        if self._actions is None:
            return None
        width = self._actions.width
        if width == 0 or len(row_chunks(n_actions, self.n_context + width)) > 1:
            return None
        return self.sides(context, np.arange(n_actions))

    def sides(self, context: FloatArray, points: Points) -> tuple[FloatArray, FloatArray]:
        """Return the features of contexts and of points, not paired: (k, d_context), (p, d)."""
        others = self._points(points)
        # Where neither has any, the only column is one of zeros.
        return encoded(self._columns, context), others if self.n_context else design(others)

    @property
    def n_filled(self) -> int | None:
        """Number of features of a pair that may not be 0, where actions are one-hot; else None."""
        one_hot = self._actions is not None and self._actions.one_hot
        return self.n_context + 1 if one_hot else None

    def filled(self, context: FloatArray, action: Points) -> Any:
        """Return the features of pairs without the zeros of one-hot actions: (k, n_features).

        Sparse and in single precision, as trees of scikit-learn take them.

        Parameters
        ----------
        context : (k, d_context)
        action : (k,)
        """
        from scipy.sparse import csr_array

        assert self._actions is not None  # noqa: S101  the caller has asked
        n_context = self.n_context
        column = np.empty((len(context), n_context + 1), dtype=np.int32)
        value = np.empty(column.shape, dtype=np.float32)
        indicator, one = self._actions.indicator(action)
        column[:, :n_context], column[:, n_context] = np.arange(n_context), n_context + indicator
        value[:, :n_context], value[:, n_context] = encoded(self._columns, context), one
        start = np.arange(0, column.size + 1, n_context + 1, dtype=np.int32)
        shape = len(context), n_context + self._actions.width
        return csr_array((value.reshape(-1), column.reshape(-1), start), shape=shape)

    def alike(self, columns: IntArray) -> IntArray | None:
        """Return a number for each action, equal where some columns of the features are.

        (n_actions,); None where actions cannot be alike, or points are embeddings.
        """
        if self._actions is None:
            return None
        return self._actions.alike(columns[columns >= self.n_context] - self.n_context)
