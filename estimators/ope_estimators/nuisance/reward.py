"""Reward models: regressions of the reward on context and action, or context and embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from ope_bench import FloatArray, IntArray, Policy, View, row_chunks
from ope_estimators.features.actions import ActionFeaturesName
from ope_estimators.features.pairs import PairFeatures, Points
from ope_estimators.learning.exact_boosting import ExactBoostingRegressor
from ope_estimators.learning.folds import logged_folds, multiplicity, target_folds
from ope_estimators.learning.learners import MIXED_MODELS, fit_weighted, fitted, regressor
from ope_estimators.learning.pipelines import LinearPrediction, linear_prediction
from ope_estimators.learning.trees import split_columns

__all__ = [
    "MANY_ROWS",
    "FittedFunction",
    "FittedReward",
    "RewardFunction",
    "RewardModel",
    "expectation",
    "fit_by_folds",
]

BLOCK = 2048
"""Pairs whose features are composed at once: the memory of small arrays is used again."""

MANY_ROWS = 6_000
"""Logged rows from which structured models predict all pairs for sums over chosen pairs, too:
rounding is then another one than pair by pair."""

DENSE = 256
"""Columns up to which trees predict from all features faster than from those that are not 0."""


RANGES = (0.25, 1024.0)
"""Ranges of the rewards with which regressions see them as they are. Others are multiplied by a
power of two: trees stop at splits that gain less than a constant, so that rewards of thousandths
would hardly be split at all."""

FAR = (1e-4, 1e6)
"""Ranges of the rewards beyond which they are divided by it."""


RewardFunction = Callable[[FloatArray, Any], FloatArray]
"""f(context (k, d_context), points) -> (k,)."""


class FittedFunction(Protocol):
    """A fitted q̂."""

    def __call__(self, context: FloatArray, points: Any, /) -> FloatArray:
        """Evaluate at pairs of a context (k, d_context) and a point: (k,)."""

    def beside(self, context: FloatArray, points: Any, /) -> FloatArray:
        """Evaluate at every point in each context (k, d_context): (k, p)."""


@dataclass(frozen=True)
class RewardModel:
    """A shared fit: regression of the reward on (context, action) or (context, embedding).

    Parameters
    ----------
    learner : a regressor's name.
    params : its parameters, in the form of `learners.frozen`.
    on : the regressor's input in addition to the context.
    action_features : how actions become features; ignored for embeddings.
    cross_fit : number of folds, by unit; 1 fits one model on all rows.
    """

    learner: str = "gbm"
    params: tuple[tuple[str, Any], ...] = ()
    on: Literal["action", "embedding"] = "action"
    action_features: ActionFeaturesName = "one-hot"
    cross_fit: int = 1

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedReward:
        """Return the fitted model; each fold's model is fitted without that fold."""
        features = PairFeatures(view, self.on, self.action_features)
        points = view.action if self.on == "action" else view.embedding
        params = dict(self.params)
        if self.learner in MIXED_MODELS:
            params["n_context"] = features.n_context

        def make(seed: int) -> Any:
            return regressor(self.learner, seed=seed, device=device, params=params)

        return fit_by_folds(view, features, points, make, cross_fit=self.cross_fit, rng=rng)


def fit_by_folds(
    view: View,
    features: PairFeatures,
    points: Points,
    make: Callable[[int], Any],
    *,
    cross_fit: int,
    rng: np.random.Generator,
    weight: FloatArray | None = None,
) -> FittedReward:
    """Fit a regression of the reward for each fold, on the rows of all other folds.

    Parameters
    ----------
    view : the samples.
    features : of context and point.
    points : (n,) or (n, d_embedding), logged actions or embeddings.
    make : builds the unfitted regressor from a seed.
    cross_fit : number of folds, by unit; 1 fits one model on all rows.
    rng : generator of the folds and the seeds.
    weight : (n,), weights of the logged rows in the regression; None for equal ones.
    """
    table = features(view.context, points)
    n_folds = 1 if cross_fit == 1 else min(cross_fit, len(np.unique(view.fold_unit)))
    fold = logged_folds(view.fold_unit, n_folds, rng)
    models = []
    unit_of_reward = outcome_unit(view.reward)
    outcome = view.reward / unit_of_reward
    count = None if view.row_weight is None else multiplicity(view.row_weight)
    for k in range(n_folds):
        rows = slice(None) if n_folds == 1 else fold != k
        if count is not None:
            rows = np.repeat(np.arange(view.n)[rows], count[rows])
        model = make(int(rng.integers(2**31)))
        unit = view.fold_unit[rows] if view.has_units or count is not None else None
        if weight is None:
            models.append(fitted(model, table[rows], outcome[rows], unit))
        else:
            models.append(fit_weighted(model, table[rows], outcome[rows], weight[rows]))
    folds = fold, target_folds(view, fold)
    return FittedReward(tuple(models), folds, features, table.shape[1], unit_of_reward)


def outcome_unit(reward: FloatArray) -> float:
    """Return what the rewards are divided by before regressions see them.

    Of rewards far from 1 it is their range, so that clicks in any unit of money are 0 and 1:
    rounding would decide between equally good splits of a tree.

    >>> [outcome_unit(np.array([0.0, one])) for one in (1.0, 2.0**-10, 3e-8)]
    [1.0, 0.0009765625, 3e-08]
    """
    spread = float(np.ptp(reward))
    if RANGES[0] <= spread <= RANGES[1] or not 0 < spread < np.inf:
        return 1.0
    if FAR[0] <= spread <= FAR[1]:
        return float(2.0 ** np.round(np.log2(spread)))
    return max(spread, np.finfo(np.float64).tiny)


class FittedReward:
    """q̂, the expected reward of context and action (or embedding).

    Parameters
    ----------
    models : one per fold.
    folds : (n,), (m,), fold of each logged row, and of each target row whose unit was logged; -1
        for other target rows.
    features : of context and point.
    width : number of features, for the size of chunks.
    unit : what the rewards of the fits were divided by.
    """

    def __init__(
        self,
        models: tuple[Any, ...],
        folds: tuple[IntArray, IntArray],
        features: PairFeatures,
        width: int,
        unit: float = 1.0,
    ) -> None:
        self._models = models
        self._unit = unit
        self._fold, self._target_fold = folds
        self._features = features
        self._width = width
        self._groups: dict[tuple[int, ...], IntArray | None] = {}
        self._linear = [linear_prediction(model) for model in models]
        # Predictions of all pairs of contexts and points by a few matrix products.
        self._structured = width > 0 and all(
            hasattr(model, "everywhere") and len(folds[0]) >= getattr(model, "structured_rows", 0)
            for model in models
        )
        trees = all(split_columns(model) is not None for model in models)
        sparse = width > DENSE or any(isinstance(m, ExactBoostingRegressor) for m in models)
        self._n_filled = features.n_filled if trees and sparse else None

    def __call__(self, context: FloatArray, points: Points) -> FloatArray:
        """Evaluate q̂ anywhere by the average over the folds' models: (k,)."""
        return self._predicted(self._models, context, points)

    def everywhere(self, context: FloatArray, n_actions: int) -> FloatArray:
        """Evaluate q̂ at every action in each context, in the order of `np.ndindex`: (k * a,)."""
        return self._predicted_everywhere(self._models, context, n_actions)

    def beside(self, context: FloatArray, points: Points) -> FloatArray:
        """Evaluate q̂ at every point in each context: (k, p)."""
        return self._beside(self._models, context, points)

    def logged(self, context: FloatArray, points: Points) -> FloatArray:
        """Evaluate q̂ at one point per logged row, by the model fitted without the row: (n,)."""
        out = np.empty(len(self._fold))
        for model, rows in self.parts():
            out[rows] = model(context[rows], points[rows])
        return out

    def pairs(self, context: FloatArray, row: IntArray, points: Points) -> FloatArray:
        """Evaluate q̂ at pairs of a logged row and a point, by models fitted without the row: (k,).

        Parameters
        ----------
        context : (n, d_context), of the logged rows.
        row : (k,), indices of logged rows.
        points : (k,) or (k, d_embedding)
        """
        if len(self._models) == 1:
            return self._predicted(self._models, context[row], points)
        out = np.empty(len(row))
        first, n_rows = (int(row.min()), int(np.ptp(row)) + 1) if len(row) else (0, 0)
        if self.predicts_all and 2 * len(row) > n_rows * self._features.n_points:
            values = self.table(context, slice(first, first + n_rows))
            out[:] = values[row - first, points]
            return out
        for k, model in enumerate(self._models):
            some = self._fold[row] == k
            out[some] = self._predicted((model,), context[row[some]], points[some])
        return out

    @property
    def predicts_all(self) -> bool:
        """Return whether predictions of all pairs cost less than those of chosen ones."""
        many = len(self._fold) >= MANY_ROWS
        return self._structured and many and self._features.n_points > 0

    def table(self, context: FloatArray, rows: slice) -> FloatArray:
        """Evaluate q̂ at all actions in logged rows, by models fitted without the row: (k, a).

        Parameters
        ----------
        context : (n, d_context), of the logged rows.
        rows : some of them.
        """
        out = np.empty((rows.stop - rows.start, self._features.n_points))
        for k, model in enumerate(self._models):
            own = self._fold[rows] == k
            out[own] = self._beside((model,), context[rows][own], np.arange(out.shape[1]))
        return out

    def expected(self, policy: Policy, context: FloatArray) -> FloatArray:
        """Compute sum_a pi(a|x) q̂(x, a) anywhere by the average over the folds' models: (k,)."""
        return expectation(policy, context, self)

    def at_target(self, context: FloatArray, points: Points) -> FloatArray:
        """Evaluate q̂ at one point per target row, by models fitted without its unit: (m,).

        Rows whose unit was never logged have the average over all models.
        """
        if len(self._models) == 1 or (self._target_fold < 0).all():
            return self(context, points)
        out = np.empty(len(self._target_fold))
        for fold in np.unique(self._target_fold):
            rows = self._target_fold == fold
            models = self._models if fold < 0 else (self._models[fold],)
            out[rows] = self._predicted(models, context[rows], points[rows])
        return out

    def logged_expected(self, policy: Policy, context: FloatArray) -> FloatArray:
        """Compute sum_a pi(a|x) q̂(x, a) per logged row, by the model fitted without it: (n,)."""
        if len(self._models) == 1:
            return self.expected(policy, context)
        out = np.empty(len(self._fold))
        for model, rows in self.parts():
            out[rows] = expectation(policy, context[rows], model)
        return out

    def parts(self) -> list[tuple[FittedFunction, Any]]:
        """Return each model with the logged rows that it was fitted without."""
        if len(self._models) == 1:
            return [(self, slice(None))]
        return [
            (_FoldReward(self, model), self._fold == k) for k, model in enumerate(self._models)
        ]

    def _predicted(
        self, models: tuple[Any, ...], context: FloatArray, points: Points
    ) -> FloatArray:
        alike = self._alike(models)
        if alike is None:
            return self._evaluated(models, context, points)
        first, inverse = distinct_pairs(context, alike[points])
        if 2 * len(first) > len(points):
            return self._evaluated(models, context, points)
        return self._evaluated(models, context[first], points[first])[inverse]

    def _beside(self, models: tuple[Any, ...], context: FloatArray, points: Points) -> FloatArray:
        k, p = len(context), len(points)
        if self._structured:
            alike, inverse = self._alike(models), None
            if alike is not None:
                _, first, inverse = np.unique(
                    alike[points], return_index=True, return_inverse=True
                )
                points = points[first]
            sides = self._features.sides(context, points)
            out = np.zeros(k * len(points))
            for model in models:
                out += model.everywhere(*sides)
            out /= len(models)
            out *= self._unit
            if inverse is not None:
                out = out.reshape(k, -1)[:, inverse]
        else:
            every = points[np.tile(np.arange(p), k)]
            out = self._predicted(models, np.repeat(context, p, axis=0), every)
        return out.reshape(k, p)

    def _predicted_everywhere(
        self, models: tuple[Any, ...], context: FloatArray, n_actions: int
    ) -> FloatArray:
        n_pairs = len(context) * n_actions
        if self._structured:
            return self._beside(models, context, np.arange(n_actions)).reshape(-1)
        if self._alike(models) is not None:
            pairs = np.repeat(context, n_actions, axis=0)
            return self._predicted(models, pairs, np.tile(np.arange(n_actions), len(context)))
        linear = [one for one in map(self._linear_of, models) if one is not None]
        parts = self._features.apart(context, n_actions) if len(linear) == len(models) else None
        if parts is not None:
            out = np.zeros(n_pairs)
            for one in linear:
                out += one.everywhere(*parts)
            return out / len(models) * self._unit

        def pairs_of(rows: slice) -> tuple[FloatArray, IntArray]:
            first, last = rows.start // n_actions, -(-rows.stop // n_actions)
            of = slice(rows.start - first * n_actions, rows.stop - first * n_actions)
            action = np.tile(np.arange(n_actions), last - first)
            return np.repeat(context[first:last], n_actions, axis=0)[of], action[of]

        return self._summed(models, n_pairs, pairs_of)

    def _alike(self, models: tuple[Any, ...]) -> IntArray | None:
        """Return the numbers of the actions, equal where none of the models tells them apart."""
        key = tuple(map(id, models))
        if key not in self._groups:
            split = [split_columns(model) for model in models]
            known = [columns for columns in split if columns is not None]
            whole = len(known) == len(split)
            columns = np.unique(np.concatenate(known)) if whole else None
            self._groups[key] = None if columns is None else self._features.alike(columns)
        return self._groups[key]

    def _evaluated(
        self, models: tuple[Any, ...], context: FloatArray, points: Points
    ) -> FloatArray:
        return self._summed(models, len(context), lambda rows: (context[rows], points[rows]))

    def _summed(
        self,
        models: tuple[Any, ...],
        n_pairs: int,
        pairs_of: Callable[[slice], tuple[FloatArray, Points]],
    ) -> FloatArray:
        """Average the models over chunks of pairs: (n_pairs,)."""
        if self._n_filled is not None:
            return self._summed_trees(models, n_pairs, pairs_of, self._n_filled)
        out, table = np.zeros(n_pairs), np.empty((0, self._width))
        for rows in row_chunks(n_pairs, self._width):
            if rows.stop - rows.start <= BLOCK:
                table = self._features(*pairs_of(rows))
            else:
                table = self._table(rows, pairs_of, table)
            for model in models:
                out[rows] += self._values(model, table, keep=model is not models[-1])
        return out / len(models) * self._unit

    def _summed_trees(
        self,
        models: tuple[Any, ...],
        n_pairs: int,
        pairs_of: Callable[[slice], tuple[FloatArray, Points]],
        n_filled: int,
    ) -> FloatArray:
        """Average models of trees over chunks of pairs, without the zeros of features: (n_pairs,).

        With many actions a chunk has many more pairs, and predictions are a few calls.
        """
        out = np.zeros(n_pairs)
        for rows in row_chunks(n_pairs, n_filled):
            filled = self._features.filled(*pairs_of(rows))
            for model in models:
                out[rows] += model.predict(filled)
        return out / len(models) * self._unit

    def _table(
        self,
        rows: slice,
        pairs_of: Callable[[slice], tuple[FloatArray, Points]],
        table: FloatArray,
    ) -> FloatArray:
        """Compose the features of a chunk of pairs, in the memory of the last one: (k, width)."""
        size = rows.stop - rows.start
        if size > len(table):
            table = np.empty((size, self._width))
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            pairs = pairs_of(slice(rows.start + start, rows.start + stop))
            table[start:stop] = self._features(*pairs)
        return table[:size]

    def _values(self, model: Any, table: FloatArray, *, keep: bool) -> FloatArray:
        """Predict each row of a table of features, which may be overwritten unless kept: (k,)."""
        linear = self._linear_of(model)
        if linear is None:
            return np.asarray(model.predict(table), dtype=np.float64).reshape(-1)
        return linear(table, None if keep else table)

    def _linear_of(self, model: Any) -> LinearPrediction | None:
        """Return the coefficients of one of the models; None where it is not linear."""
        pairs = zip(self._models, self._linear, strict=True)
        return next(linear for one, linear in pairs if one is model)


class _FoldReward:
    """q̂ of one fold's model.

    Parameters
    ----------
    reward : of all folds.
    model : of the fold.
    """

    def __init__(self, reward: FittedReward, model: Any) -> None:
        self._reward = reward
        self._models = (model,)

    def __call__(self, context: FloatArray, points: Points) -> FloatArray:
        """Evaluate the model: (k,)."""
        return self._reward._predicted(self._models, context, points)

    def everywhere(self, context: FloatArray, n_actions: int) -> FloatArray:
        """Evaluate the model at every action in each context: (k * n_actions,)."""
        return self._reward._predicted_everywhere(self._models, context, n_actions)

    def beside(self, context: FloatArray, points: Points) -> FloatArray:
        """Evaluate the model at every point in each context: (k, p)."""
        return self._reward._beside(self._models, context, points)


def distinct_pairs(context: FloatArray, group: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first rows of distinct pairs of a context and a group, and each row's pair.

    Contexts count as equal where they follow one another, as in sums over actions.

    Parameters
    ----------
    context : (k, d_context)
    group : (k,)

    >>> context = np.array([[0.5], [0.5], [0.5], [0.7]])
    >>> first, pair = distinct_pairs(context, np.array([0, 1, 0, 0]))
    >>> first.tolist(), pair.tolist()
    ([0, 1, 3], [0, 1, 0, 2])
    """
    run = np.zeros(len(context), dtype=np.int64)
    run[1:] = np.cumsum((context[1:] != context[:-1]).any(axis=1))
    code = run * (int(group.max(initial=0)) + 1) + group
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int64)


def expectation(
    policy: Policy, context: FloatArray, f: Callable[[FloatArray, IntArray], FloatArray]
) -> FloatArray:
    """Compute E[f(x, a)] over actions once per distinct context: (n,)."""
    # Rows differ where a column does, which is cheaper to know.
    for column in context.T:
        if 2 * len(np.unique(column)) > len(context):
            return policy.expect(context, f)
    different, inverse = np.unique(context, axis=0, return_inverse=True)
    if 2 * len(different) > len(context):
        # Few repeats: pass the array itself, for which policies may have cached results.
        return policy.expect(context, f)
    return policy.expect(different, f)[inverse.reshape(-1)]
