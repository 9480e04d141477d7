"""Reward models: regressions of the reward on context and action, or context and embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ope_bench.arrays import FloatArray, IntArray, row_chunks
from ope_bench.policies import Policy
from ope_bench.view import View
from ope_estimators.nuisance.features import ActionFeatures, ActionFeaturesName, design, encoded
from ope_estimators.nuisance.folds import fold_of
from ope_estimators.nuisance.learners import regressor

__all__ = ["FittedReward", "PairFeatures", "RewardModel", "expectation"]

Points = FloatArray | IntArray
"""Actions (k,) or embeddings (k, d_embedding)."""


@dataclass(frozen=True)
class RewardModel:
    """What to fit: a regression of the reward on (context, action) or (context, embedding).

    Parameters
    ----------
    learner : a regressor's name.
    params : its parameters, as `learners.frozen` gives them.
    on : what the reward is regressed on beside the context.
    action_features : how actions become features; without meaning on embeddings.
    cross_fit : number of folds; 1 fits one model on all rows.
    """

    learner: str = "gbm"
    params: tuple[tuple[str, Any], ...] = ()
    on: Literal["action", "embedding"] = "action"
    action_features: ActionFeaturesName = "one-hot"
    cross_fit: int = 1

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedReward:
        """The fitted model; each fold's model never sees that fold."""
        features = PairFeatures(view, self.on, self.action_features)
        table = features(view.context, view.action if self.on == "action" else view.embedding)
        n_folds = min(self.cross_fit, view.n)
        fold = fold_of(view.n, n_folds, rng)
        models = []
        for k in range(n_folds):
            rows = slice(None) if n_folds == 1 else fold != k
            seed = int(rng.integers(2**31))
            model = regressor(self.learner, seed=seed, device=device, params=self.params)
            models.append(model.fit(table[rows], view.reward[rows]))
        return FittedReward(tuple(models), fold, features, table.shape[1])


class PairFeatures:
    """Features of a context beside an action or an embedding.

    Parameters
    ----------
    view : whose columns and actions are described.
    on : what stands beside the context.
    action_features : how actions become features.
    """

    def __init__(
        self, view: View, on: Literal["action", "embedding"], action_features: ActionFeaturesName
    ) -> None:
        self._columns = view.schema.context
        self._points: Callable[[Any], FloatArray]
        if on == "embedding":
            self._points = partial(encoded, view.schema.embedding)
        else:
            self._points = ActionFeatures(view, action_features)

    def __call__(self, context: FloatArray, points: Points) -> FloatArray:
        """The features of each pair: (k, n_features)."""
        return design(encoded(self._columns, context), self._points(points))


class FittedReward:
    """q̂, the expected reward of context and action (or embedding).

    Parameters
    ----------
    models : one a fold.
    fold : (n,), fold of each logged row.
    features : of context and point.
    width : number of features, for the size of chunks.
    """

    def __init__(
        self,
        models: tuple[Any, ...],
        fold: IntArray,
        features: PairFeatures,
        width: int,
    ) -> None:
        self._models = models
        self._fold = fold
        self._features = features
        self._width = width

    def __call__(self, context: FloatArray, points: Points) -> FloatArray:
        """q̂ anywhere, the average over the folds' models: (k,)."""
        return self._predicted(self._models, context, points)

    def logged(self, context: FloatArray, points: Points) -> FloatArray:
        """q̂ at one point for each logged row, by the model that has not seen the row: (n,)."""
        out = np.empty(len(self._fold))
        for models, rows in self._parts():
            out[rows] = self._predicted(models, context[rows], points[rows])
        return out

    def expected(self, policy: Policy, context: FloatArray) -> FloatArray:
        """sum_a pi(a|x) q̂(x, a) anywhere, by the average over the folds' models: (k,)."""
        return expectation(policy, context, self)

    def logged_expected(self, policy: Policy, context: FloatArray) -> FloatArray:
        """sum_a pi(a|x) q̂(x, a) for each logged row, by the model that has not seen it: (n,)."""
        if len(self._models) == 1:
            return self.expected(policy, context)
        out = np.empty(len(self._fold))
        for models, rows in self._parts():

            def one(x: FloatArray, a: IntArray, models: tuple[Any, ...] = models) -> FloatArray:
                return self._predicted(models, x, a)

            out[rows] = expectation(policy, context[rows], one)
        return out

    def _parts(self) -> list[tuple[tuple[Any, ...], Any]]:
        """Each model alone, with the rows that it has not seen."""
        if len(self._models) == 1:
            return [(self._models, slice(None))]
        return [((model,), self._fold == k) for k, model in enumerate(self._models)]

    def _predicted(
        self, models: tuple[Any, ...], context: FloatArray, points: Points
    ) -> FloatArray:
        out = np.zeros(len(context))
        for rows in row_chunks(len(context), self._width):
            table = self._features(context[rows], points[rows])
            for model in models:
                out[rows] += np.asarray(model.predict(table), dtype=np.float64).reshape(-1)
        return out / len(models)


def expectation(
    policy: Policy, context: FloatArray, f: Callable[[FloatArray, IntArray], FloatArray]
) -> FloatArray:
    """E over actions of f(x, a), computed once for each different context: (n,)."""
    different, inverse = np.unique(context, axis=0, return_inverse=True)
    if 2 * len(different) > len(context):
        # Hardly any repeats: the array itself, which policies may know already.
        return policy.expect(context, f)
    return policy.expect(different, f)[inverse.reshape(-1)]
