"""Policy models: how likely each action is, learnt from samples of actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ope_bench.arrays import FloatArray, IntArray, row_chunks
from ope_bench.errors import UnavailableError
from ope_bench.view import View
from ope_estimators.nuisance.features import design, encoded
from ope_estimators.nuisance.learners import classifier

__all__ = ["MAX_TABLE", "FittedPolicy", "PolicyModel", "too_many_actions"]

MAX_TABLE = 1 << 26
"""Entries of the (rows, actions) table of probabilities, 0.5 GB, beyond which no classifier of
actions is fitted: learners hold several such tables at once."""


def too_many_actions(view: View) -> bool:
    """Whether the table of either sample would be larger than `MAX_TABLE`."""
    samples = view.action, view.target_action
    return max(len(action) * len(np.unique(action)) for action in samples) > MAX_TABLE


@dataclass(frozen=True)
class PolicyModel:
    """What to fit: a classification of the action, by its context or context and embedding.

    Fitted on all rows and used on them: a fold often lacks the rare actions altogether.

    Parameters
    ----------
    sample : whose actions, those of the logs or of the target sample.
    learner : a classifier's name.
    params : its parameters, as `learners.frozen` gives them.
    given : what the action is classified by.

    Raises
    ------
    UnavailableError : actions are continuous, or too many for the rows.
    """

    sample: Literal["logged", "target"] = "logged"
    learner: str = "logistic"
    params: tuple[tuple[str, Any], ...] = ()
    given: Literal["context", "context and embedding"] = "context"

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedPolicy:
        """The fitted model."""
        if view.n_actions is None:
            msg = "a policy model classifies actions; this environment's are continuous"
            raise UnavailableError(msg)
        if too_many_actions(view):
            msg = (
                "a policy model is a classifier of actions; these samples show too many of them "
                f"(rows times actions above {MAX_TABLE:,})"
            )
            raise UnavailableError(msg)
        logged = self.sample == "logged"
        context = view.context if logged else view.target_context
        action = view.action if logged else view.target_action
        columns = view.schema.context
        if self.given == "context and embedding":
            context = np.hstack([context, view.embedding if logged else view.target_embedding])
            columns += view.schema.embedding
        seen, label = np.unique(action, return_inverse=True)
        model = None
        if len(seen) > 1:
            seed = int(rng.integers(2**31))
            model = classifier(self.learner, seed=seed, device=device, params=self.params)
            model.fit(design(encoded(columns, context)), label)
        return FittedPolicy(model, columns, seen, view.n_actions, len(action))


class FittedPolicy:
    """π̂, the probability of each action that the sample showed.

    Parameters
    ----------
    model : the classifier, None where the sample showed one action only.
    columns : kinds of the columns that it is given.
    seen : (n_seen,), the actions that the sample showed, sorted.
    n_actions : number of actions, shown or not.
    n : rows of the sample.
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

    def blocks(self, given: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Chunks of the (k, n_seen) table of probabilities, each with its rows."""
        for rows in row_chunks(len(given), len(self.seen)):
            part = given[rows]
            if self._model is None:
                yield rows, np.ones((len(part), 1))
            else:
                table = self._model.predict_proba(design(encoded(self._columns, part)))
                yield rows, np.asarray(table, dtype=np.float64)

    def probability(
        self, given: FloatArray, action: IntArray, *, laplace: float = 0.0
    ) -> FloatArray:
        """π̂(a|x) of each row's pair, 0 for an action that the sample did not show: (k,).

        Parameters
        ----------
        given : what the action is classified by, (k, d).
        action : (k,)
        laplace : pseudo-count of every action, shown or not: the sample's n rows count as n
            draws from π̂, which makes (n π̂(a|x) + laplace) / (n + laplace * n_actions).
        """
        column = np.minimum(np.searchsorted(self.seen, action), len(self.seen) - 1)
        known = self.seen[column] == action
        out = np.empty(len(action))
        for rows, table in self.blocks(given):
            out[rows] = np.take_along_axis(table, column[rows, None], axis=1)[:, 0]
        shown = np.where(known, out, 0.0)
        return (self._n * shown + laplace) / (self._n + laplace * self._n_actions)
