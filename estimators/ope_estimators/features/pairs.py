"""Features of pairs of a context and an action or embedding, the inputs of reward models."""

from __future__ import annotations

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
    """

    def __init__(
        self, view: View, on: Literal["action", "embedding"], action_features: ActionFeaturesName
    ) -> None:
        self._columns = view.schema.context
        self._points: Callable[[Any], FloatArray]
        self._actions: ActionFeatures | None = None
        if on == "embedding":
            self._points = partial(encoded, view.schema.embedding)
        else:
            self._points = self._actions = ActionFeatures(view, action_features)
        self._n_context = encoded(self._columns, view.context[:1]).shape[1]

    def __call__(self, context: FloatArray, points: Points) -> FloatArray:
        """Return the features of each pair, a new array: (k, n_features)."""
        if self._actions is None:
            return design(encoded(self._columns, context), self._points(points))
        width = self._n_context + self._actions.width
        if width == 0:
            return design(np.empty((len(context), 0)))
        table = np.empty((len(context), width))
        table[:, : self._n_context] = encoded(self._columns, context)
        self._actions.write(points, table[:, self._n_context :])
        return table

    def apart(self, context: FloatArray, n_actions: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the features of contexts, (k, d_context), and of all actions, (n_actions, d).

        None where points are embeddings, or the actions' features are too large for a chunk.
        """
        if self._actions is None:
            return None
        width = self._actions.width
        if width == 0 or len(row_chunks(n_actions, self._n_context + width)) > 1:
            return None
        return encoded(self._columns, context), self._actions(np.arange(n_actions))

    def alike(self, columns: IntArray) -> IntArray | None:
        """Return a number for each action, equal where some columns of the features are.

        (n_actions,); None where actions cannot be alike, or points are embeddings.
        """
        if self._actions is None:
            return None
        return self._actions.alike(columns[columns >= self._n_context] - self._n_context)
