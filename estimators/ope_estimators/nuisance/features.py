"""Features of contexts, embeddings and actions: what learners are given.

Categorical columns become indicators of their categories; other columns pass as they are.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Column
from ope_bench.errors import UnavailableError
from ope_bench.view import View

__all__ = ["MAX_ONE_HOT", "ActionFeatures", "ActionFeaturesName", "design", "encoded"]

ActionFeaturesName = Literal["one-hot", "ordinal", "embedding"]

MAX_ONE_HOT = 4096
"""Logged actions beyond which one-hot features are refused: the table would be larger than the
logs by as much, and hardly any action would have been seen twice."""


def encoded(columns: tuple[Column, ...], values: FloatArray) -> FloatArray:
    """The columns as features, categorical ones as indicators: (n, n_features).

    The first category has none of its own, so that no column is a sum of others and a binary
    column stays one.

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
    """The parts beside each other, or one column of zeros where there is nothing to know.

    Without contexts, learners then fit what does not depend on them.
    """
    table = np.hstack(parts)
    return table if table.shape[1] else np.zeros((len(table), 1))


class ActionFeatures:
    """Features of actions, learnt from both samples' actions and embeddings, never from rewards.

    ``one-hot``: an indicator for each action that was logged; one that was not has zeros only.
    ``ordinal``: the action's number, as if numbers were ordered by meaning.
    ``embedding``: the action's embedding where embeddings are deterministic, else the mean of the
    embeddings that both samples show for it (indicators of categories average to shares), and the
    mean over all rows for an action that neither shows.
    Continuous actions are their own feature, whatever the name.

    Parameters
    ----------
    view : whose actions and embeddings are described.
    name : which features.

    Raises
    ------
    UnavailableError : one-hot features of more than `MAX_ONE_HOT` logged actions.
    """

    def __init__(self, view: View, name: ActionFeaturesName) -> None:
        self._table: FloatArray | None = None
        self._column: IntArray | None = None
        self._n_columns = 0
        if view.n_actions is None or name == "ordinal":
            return
        if name == "one-hot":
            self._column, self._n_columns = _columns(view.action, view.n_actions)
        else:
            self._table = _embedding_table(view, view.n_actions)

    def __call__(self, action: IntArray | FloatArray) -> FloatArray:
        """Features of each action: (k, n_features)."""
        if self._table is not None:
            return self._table[action]
        if self._column is None:
            return action[:, None].astype(np.float64)
        # One column more takes the actions that were never logged, and is dropped.
        features = np.zeros((len(action), self._n_columns + 1))
        features[np.arange(len(action)), self._column[action]] = 1.0
        return features[:, :-1]


def _columns(action: IntArray, n_actions: int) -> tuple[IntArray, int]:
    """Column of each action, beyond the last for one never logged, and how many there are."""
    logged = np.unique(action)
    if len(logged) > MAX_ONE_HOT:
        msg = (
            f"one-hot features of {len(logged)} logged actions (at most {MAX_ONE_HOT}); "
            "set action_features to 'embedding' or 'ordinal'"
        )
        raise UnavailableError(msg)
    column = np.full(n_actions, len(logged), dtype=np.int64)
    column[logged] = np.arange(len(logged))
    return column, len(logged)


def _embedding_table(view: View, n_actions: int) -> FloatArray:
    """Embedding features of every action: (n_actions, n_features)."""
    columns = view.schema.embedding
    if view.action_embedding is not None:
        return encoded(columns, view.action_embedding)
    action = np.concatenate([view.action, view.target_action])
    features = encoded(columns, np.vstack([view.embedding, view.target_embedding]))
    order = np.argsort(action, kind="stable")
    seen, start, count = np.unique(action[order], return_index=True, return_counts=True)
    table = np.tile(features.mean(axis=0), (n_actions, 1))
    table[seen] = np.add.reduceat(features[order], start, axis=0) / count[:, None]
    return table
