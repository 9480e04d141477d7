"""Reward models fitted to differences within clusters of actions first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray, View
from ope_estimators.features.actions import ActionFeaturesName, encoded
from ope_estimators.features.pairs import PairFeatures
from ope_estimators.learning.learners import regressor
from ope_estimators.learning.pairwise import PairwiseRegressor
from ope_estimators.nuisance.action_clusters import clusters_of
from ope_estimators.nuisance.reward import FittedReward, fit_by_folds

__all__ = ["PairwiseRewardModel"]


@dataclass(frozen=True)
class PairwiseRewardModel:
    """A shared fit: q̂(x, a) = h(x, a) + g(x, φ(a)), as `PairwiseRegressor` fits it.

    Parameters
    ----------
    learner : a regressor's name, for both parts.
    params : its parameters, in the form of `learners.frozen`.
    action_features : how actions become features of h.
    clusters : as for `clusters_of`; the cluster of each action as a tuple.
    cross_fit : number of folds, by unit; 1 fits one model on all rows.
    """

    learner: str
    params: tuple[tuple[str, Any], ...]
    action_features: ActionFeaturesName
    clusters: int | tuple[int, ...] | None
    cross_fit: int

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedReward:
        """Return the fitted model; each fold's model is fitted without that fold."""
        clusters = list(self.clusters) if isinstance(self.clusters, tuple) else self.clusters
        features = ClusteredFeatures(view, self.action_features, clusters_of(view, clusters))

        def make(seed: int) -> PairwiseRegressor:
            return PairwiseRegressor(
                lambda: regressor(self.learner, seed=seed, device=device, params=self.params),
                features.n_context,
            )

        return fit_by_folds(view, features, view.action, make, cross_fit=self.cross_fit, rng=rng)


class ClusteredFeatures(PairFeatures):
    """Cluster of the action, context, and the features of context and action.

    Parameters
    ----------
    view : source of the columns and actions.
    action_features : how actions become features.
    cluster : (n_actions,)
    """

    def __init__(self, view: View, action_features: ActionFeaturesName, cluster: IntArray) -> None:
        super().__init__(view, "action", action_features)
        self._cluster = cluster

    def __call__(self, context: FloatArray, points: FloatArray | IntArray) -> FloatArray:
        """Return the features of each pair: (k, 1 + n_context + n_features)."""
        pair = super().__call__(context, points)
        own = self._cluster[np.asarray(points, dtype=np.int64)][:, None].astype(np.float64)
        return np.hstack([own, encoded(self._columns, context), pair])
