"""Features of contexts, embeddings and actions, the inputs of learners.

Categorical columns become indicators of their categories; other columns are unchanged.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ope_bench import Column, FloatArray, IntArray, UnavailableError, View

__all__ = ["MAX_ONE_HOT", "ActionFeatures", "ActionFeaturesName", "design", "encoded"]

ActionFeaturesName = Literal["one-hot", "ordinal", "embedding"]

MAX_ONE_HOT = 4096
"""Most logged actions for one-hot features.

The table would be larger than the logs by this factor, and most actions would have been logged
only once.
"""


def encoded(columns: tuple[Column, ...], values: FloatArray) -> FloatArray:
    """Convert columns to features, categorical ones to indicators: (n, n_features).

    The first category has no indicator, so that no column is a sum of others and a binary column
    stays one column.

    >>> code, size = Column("categorical", (1.0, 2.0, 5.0)), Column()
    >>> encoded((code, size), np.array([[2.0, 0.3], [1.0, 0.1]])).tolist()
    [[1.0, 0.0, 0.3], [0.0, 0.0, 0.1]]
    """
    if all(column.kind != "categorical" for column in columns):
        return values
    parts = [
        np.equal.outer(values[:, j], np.array(column.categories[1:])).astype(np.float64)
        if column.kind == "categorical"
        else values[:, j : j + 1]
        for j, column in enumerate(columns)
    ]
    return np.hstack(parts)


def design(*parts: FloatArray) -> FloatArray:
    """Concatenate the parts by columns; one column of zeros if there are none.

    Without contexts, learners then fit a constant in them.
    """
    # Learners may expect an array that can be written to.
    table = parts[0] if len(parts) == 1 and parts[0].flags.writeable else np.hstack(parts)
    return table if table.shape[1] else np.zeros((len(table), 1))


class ActionFeatures:
    """Features of actions, from the samples' actions and embeddings, never from rewards.

    ``one-hot``: an indicator for each logged action; an action that was never logged has zeros
    only. ``ordinal``: the action's number, as if the order of numbers had a meaning.
    ``embedding``: the action's embedding where embeddings are deterministic, else the mean of its
    embeddings in the logs and the target sample, if there is one (indicators of categories average
    to shares), and the mean over all rows for an action that is in neither. Continuous actions are
    used as they are, with any ``name``.

    Parameters
    ----------
    view : source of the actions and embeddings.
    name : kind of features.
    max_width : most features of an embedding; one that has more is left out, and so is one that
        is unknown, unless the width has no limit.

    Raises
    ------
    UnavailableError : one-hot features of more than `MAX_ONE_HOT` logged actions.
    """

    def __init__(self, view: View, name: ActionFeaturesName, max_width: float = math.inf) -> None:
        self._table: FloatArray | None = None
        self._column: IntArray | None = None
        self._n_columns = 0
        if view.n_actions is None or name == "ordinal":
            return
        if name == "one-hot":
            self._column, self._n_columns = _columns(view.action, view.n_actions)
        elif _left_out(view, max_width):
            self._table = np.empty((view.n_actions, 0))
        else:
            self._table = _embedding_table(view, view.n_actions)

    @property
    def width(self) -> int:
        """Number of features."""
        if self._table is not None:
            return int(self._table.shape[1])
        return 1 if self._column is None else self._n_columns

    def __call__(self, action: IntArray | FloatArray) -> FloatArray:
        """Return the features of each action: (k, n_features)."""
        features = np.empty((len(action), self.width))
        self.write(action, features)
        return features

    def write(self, action: IntArray | FloatArray, out: FloatArray) -> None:
        """Write the features of each action into an array.

        Parameters
        ----------
        action : (k,)
        out : (k, n_features), overwritten.
        """
        if self._table is not None:
            out[:] = self._table[action]
        elif self._column is None:
            out[:, 0] = action
        else:
            out[:] = 0.0
            column = self._column[action]
            logged = np.flatnonzero(column < self._n_columns)
            out[logged, column[logged]] = 1.0

    @property
    def one_hot(self) -> bool:
        """Return whether the features are indicators, at most one of which is not 0."""
        return self._column is not None

    def indicator(self, action: IntArray | FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the only column of one-hot features that may not be 0, and its value: (k,), (k,).

        An action that was never logged has the value 0 in the first column.

        Parameters
        ----------
        action : (k,)
        """
        assert self._column is not None  # noqa: S101  the caller has asked
        column = self._column[action]
        logged = column < self._n_columns
        return np.where(logged, column, 0), logged.astype(np.float64)

    def alike(self, columns: IntArray) -> IntArray | None:
        """Return a number for each action, equal for actions that agree in some columns.

        (n_actions,); None where every action has a number of its own, or actions are continuous.

        Parameters
        ----------
        columns : of the features.
        """
        if self._table is not None:
            _, group = np.unique(self._table[:, columns], axis=0, return_inverse=True)
            return np.asarray(group.reshape(-1), dtype=np.int64)
        if self._column is None:
            return None
        # The last number is that of the actions without an indicator among the columns.
        number = np.full(self._n_columns + 1, len(columns), dtype=np.int64)
        number[columns] = np.arange(len(columns))
        return number[self._column]


def _columns(action: IntArray, n_actions: int) -> tuple[IntArray, int]:
    """Return each action's column (beyond the last if never logged), and the number of columns."""
    logged = np.unique(action)
    if len(logged) > MAX_ONE_HOT:
        msg = (
            f"one-hot features of {len(logged)} logged actions (at most {MAX_ONE_HOT}); "
            "set action_features to 'embedding', 'separate' or 'ordinal'"
        )
        raise UnavailableError(msg)
    column = np.full(n_actions, len(logged), dtype=np.int64)
    column[logged] = np.arange(len(logged))
    return column, len(logged)


def _left_out(view: View, max_width: float) -> bool:
    """Return whether actions are used without embeddings, as a limit of their width allows."""
    try:
        width: int = encoded(view.schema.embedding, view.embedding[:1]).shape[1]
    except UnavailableError:
        if max_width == math.inf:
            raise
        return True
    return width > max_width


def _embedding_table(view: View, n_actions: int) -> FloatArray:
    """Return the embedding features of every action: (n_actions, n_features)."""
    columns = view.schema.embedding
    if view.action_embedding is not None:
        return encoded(columns, view.action_embedding)
    action, embedding = view.action, view.embedding
    if view.has_target_sample:
        action = np.concatenate([action, view.target_action])
        embedding = np.vstack([embedding, view.target_embedding])
    features = encoded(columns, embedding)
    order = np.argsort(action, kind="stable")
    seen, start, count = np.unique(action[order], return_index=True, return_counts=True)
    table = np.tile(features.mean(axis=0), (n_actions, 1))
    table[seen] = np.add.reduceat(features[order], start, axis=0) / count[:, None]
    return table
