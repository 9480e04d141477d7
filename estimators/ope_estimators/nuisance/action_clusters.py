"""Clusters of actions by their embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge

from ope_bench import FloatArray, IntArray, ParameterError, UnavailableError, View, row_chunks
from ope_estimators.features.actions import ActionFeatures
from ope_estimators.nuisance.partial_expectation import probability_table

__all__ = [
    "ActionClusters",
    "Clusters",
    "clusters_of",
    "pooled_weights",
    "require_actions",
    "usual_number",
]

Clusters = Annotated[int, Ge(1)] | list[int] | None
"""A number of clusters, the cluster of each action, or None for the usual number."""


@dataclass(frozen=True)
class ActionClusters:
    """k-means of the actions' embeddings, as `ActionFeatures` makes them from samples.

    Parameters
    ----------
    number : of clusters; as many as there are different embeddings where those are fewer.
    """

    number: int

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> IntArray:
        """Return the cluster of each action: (n_actions,)."""
        from sklearn.cluster import KMeans

        assert view.n_actions is not None  # noqa: S101  callers refuse continuous actions
        table = ActionFeatures(view, "embedding")(np.arange(view.n_actions))
        spread = table.std(axis=0)
        table = table / np.where(spread > 0, spread, 1.0)
        different, own = np.unique(table, axis=0, return_inverse=True)
        own = own.reshape(-1).astype(np.int64)
        if len(different) <= self.number:
            return own
        seed = int(rng.integers(2**31))
        means = KMeans(self.number, n_init=3, random_state=seed)
        labels = means.fit_predict(different, sample_weight=np.bincount(own).astype(float))
        cluster: IntArray = labels.astype(np.int64)[own]
        return cluster


def usual_number(n_actions: int) -> int:
    """Return 50 clusters for 1,000 actions or more, else the square root of their number.

    >>> usual_number(100), usual_number(5000)
    (10, 50)
    """
    return 50 if n_actions >= 1000 else max(1, math.isqrt(n_actions))


def clusters_of(view: View, clusters: int | list[int] | None) -> IntArray:
    """Return the cluster of each action, given or fitted; the fit is shared: (n_actions,).

    Raises
    ------
    ParameterError : given clusters that are not one for each action.
    """
    n_actions = view.n_actions
    assert n_actions is not None  # noqa: S101  callers refuse continuous actions
    if isinstance(clusters, list):
        if len(clusters) != n_actions:
            msg = f"clusters: {len(clusters)} entries; expected one for each action, {n_actions}"
            raise ParameterError(msg)
        return np.array(clusters, dtype=np.int64)
    number = usual_number(n_actions) if clusters is None else clusters
    return view.fitted(ActionClusters(number))


def require_actions(view: View, what: str) -> int:
    """Return the number of actions; raise an error without one.

    Raises
    ------
    UnavailableError : actions are continuous.
    """
    if view.n_actions is None:
        msg = f"{what}; this environment's actions are continuous"
        raise UnavailableError(msg)
    return view.n_actions


def pooled_weights(view: View, cluster: Callable[[slice], IntArray]) -> FloatArray:
    """Return the ratio of the policies' masses of the logged action's cluster: (n,).

    Parameters
    ----------
    view : the logged rows and both policies.
    cluster : clusters of all actions in a chunk of logged rows, (k, n_actions) or (n_actions,).
    """
    n_actions = require_actions(view, "clusters pool actions")
    ratio = np.empty(view.n)
    for rows in row_chunks(view.n, n_actions):
        table = np.broadcast_to(cluster(rows), (rows.stop - rows.start, n_actions))
        own = np.take_along_axis(table, view.action[rows, None], axis=1)
        pool = table == own
        masses = [
            np.where(pool, probability_table(policy, view.context[rows], n_actions), 0.0)
            for policy in (view.target_policy, view.logging_policy)
        ]
        target, logging = (mass.sum(axis=1) for mass in masses)
        ratio[rows] = target / logging
    return ratio
