"""Policy models: probabilities of actions, learned from samples of actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ope_bench import Diagnostic, FloatArray, IntArray, UnavailableError, View, row_chunks
from ope_estimators.features.actions import design, encoded
from ope_estimators.learning.learners import classifier, fitted
from ope_estimators.learning.pipelines import softmax_scores

__all__ = ["MAX_TABLE", "FittedPolicy", "PartialPolicyModel", "PolicyModel", "too_many_actions"]

MAX_TABLE = 1 << 26
"""Most entries of the (rows, actions) table of probabilities (0.5 GB) for a classifier of actions:
learners hold several such tables at once."""


def too_many_actions(*samples: IntArray) -> bool:
    """Return whether the table of one of the samples of actions would exceed `MAX_TABLE`."""
    return max(len(action) * len(np.unique(action)) for action in samples) > MAX_TABLE


@dataclass(frozen=True)
class PolicyModel:
    """A shared fit: classification of the action by context, or by context and embedding.

    Fitted on all rows and evaluated on them: folds often lack the rare actions.

    Parameters
    ----------
    sample : the sample of the actions, logs or target.
    learner : a classifier's name.
    params : its parameters, in the form of `learners.frozen`.
    given : the features of the classification.

    Raises
    ------
    UnavailableError : actions are continuous, or too many for the rows.
    """

    sample: Literal["logged", "target"] = "logged"
    learner: str = "logistic"
    params: tuple[tuple[str, Any], ...] = ()
    given: Literal["context", "context and embedding"] = "context"

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedPolicy:
        """Return the fitted model."""
        logged = self.sample == "logged"
        context = view.context if logged else view.target_context
        action = view.action if logged else view.target_action
        _require_few_actions(view, action)
        columns = view.schema.context
        if self.given == "context and embedding":
            context = np.hstack([context, view.embedding if logged else view.target_embedding])
            columns += view.schema.embedding
        unit = view.fold_unit if logged else view.target_fold_unit
        return _classified(view, self, (columns, context), action, unit, rng, device)


@dataclass(frozen=True)
class PartialPolicyModel:
    """A shared fit: classification of the logged action by context and part of the embedding.

    Parameters
    ----------
    learner : a classifier's name.
    params : its parameters, in the form of `learners.frozen`.
    dimensions : columns of the embedding.

    Raises
    ------
    UnavailableError : actions are continuous, or too many for the rows.
    """

    learner: str
    params: tuple[tuple[str, Any], ...]
    dimensions: tuple[int, ...]

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedPolicy:
        """Return the fitted model."""
        _require_few_actions(view, view.action)
        given = np.hstack([view.context, view.embedding[:, self.dimensions]])
        columns = view.schema.context
        columns += tuple(view.schema.embedding[index] for index in self.dimensions)
        return _classified(view, self, (columns, given), view.action, view.fold_unit, rng, device)


def _require_few_actions(view: View, action: IntArray) -> None:
    if view.n_actions is None:
        msg = "a policy model classifies actions; this environment's are continuous"
        raise UnavailableError(msg)
    if too_many_actions(action):
        msg = (
            "a policy model is a classifier of actions; the sample has too many "
            f"actions (rows times actions above {MAX_TABLE:,})"
        )
        raise UnavailableError(msg)


def _classified(
    view: View,
    spec: PolicyModel | PartialPolicyModel,
    features: tuple[tuple[Any, ...], FloatArray],
    action: IntArray,
    unit: IntArray,
    rng: np.random.Generator,
    device: str,
) -> FittedPolicy:
    """Fit the classifier of actions on columns and their values."""
    columns, given = features
    seen, label = np.unique(action, return_inverse=True)
    model = None
    if len(seen) > 1:
        seed = int(rng.integers(2**31))
        model = classifier(spec.learner, seed=seed, device=device, params=spec.params)
        table = design(encoded(columns, given))
        fitted(model, table, label, unit if view.has_units else None)
    assert view.n_actions is not None  # noqa: S101  continuous actions are refused
    return FittedPolicy(model, columns, seen, view.n_actions, len(action))


class FittedPolicy:
    """π̂, the probability of each action in the sample.

    Parameters
    ----------
    model : the classifier, None if the sample has one action only.
    columns : kinds of the classifier's columns.
    seen : (n_seen,), the actions in the sample, sorted.
    n_actions : number of all actions.
    n : number of rows of the sample.
    """

    def __init__(
        self,
        model: Any | None,
        columns: tuple[Any, ...],
        seen: IntArray,
        n_actions: int,
        n: int,
    ) -> None:
        self._model = model
        self._columns = columns
        self.seen = seen
        self._n_actions = n_actions
        self._n = n
        self._scores = None if model is None else softmax_scores(model)

    def blocks(self, given: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield chunks of the (k, n_seen) table of probabilities, each with its rows."""
        for rows in row_chunks(len(given), len(self.seen)):
            part = given[rows]
            if self._model is None:
                yield rows, np.ones((len(part), 1))
                continue
            features = design(encoded(self._columns, part))
            if self._scores is None:
                yield rows, np.asarray(self._model.predict_proba(features), dtype=np.float64)
            else:
                yield rows, _softmax(self._scores(features))

    def column(self, action: IntArray) -> IntArray:
        """Return the column of each action in the table, some column if it was not seen: (k,)."""
        column: IntArray = np.minimum(np.searchsorted(self.seen, action), len(self.seen) - 1)
        return column

    def quality(self, probability: FloatArray) -> dict[str, Diagnostic]:
        """Return how well the classifier describes its sample, and after how many iterations.

        ``log_likelihood`` is left out where the classifier excludes what happened,
        ``iterations`` where it makes none.

        Parameters
        ----------
        probability : (n,), of the sample's actions.
        """
        last: Any = self._model
        last = last.steps[-1][1] if hasattr(last, "steps") else last
        facts: dict[str, Diagnostic] = {}
        if probability.all():
            facts["log_likelihood"] = float(np.log(probability).mean())
        if hasattr(last, "n_iter_"):
            facts["iterations"] = int(np.max(last.n_iter_))
        return facts

    def probability(
        self, given: FloatArray, action: IntArray, *, laplace: float = 0.0
    ) -> FloatArray:
        """Return π̂(a|x) of each row's pair, 0 for an action that is not in the sample: (k,).

        Parameters
        ----------
        given : features of the classification, (k, d).
        action : (k,)
        laplace : pseudo-count of every action, in the sample or not: the sample's n rows count as
            n draws from π̂, which gives (n π̂(a|x) + laplace) / (n + laplace * n_actions).
        """
        column = self.column(action)
        known = self.seen[column] == action
        out = np.empty(len(action))
        for rows, table in self.blocks(given):
            out[rows] = np.take_along_axis(table, column[rows, None], axis=1)[:, 0]
        shown = np.where(known, out, 0.0)
        return (self._n * shown + laplace) / (self._n + laplace * self._n_actions)


def _softmax(score: FloatArray) -> FloatArray:
    """Return the softmax of each row, in the memory of the scores: (k, n_seen)."""
    score -= score.max(axis=1, keepdims=True)
    np.exp(score, out=score)
    score /= score.sum(axis=1, keepdims=True)
    return score
