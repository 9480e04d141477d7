"""Small problems with everything known, on which estimators are checked.

Rewards have mean about 2 and standard deviation about 1, so that an estimate near 0 stands out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Column, Problem, Schema, Truth
from ope_bench.embeddings import DeterministicEmbedding, FiniteEmbedding
from ope_bench.environment import Environment
from ope_bench.policies import DiscretePolicy, Softmax, Tabular
from ope_bench.testing.gaussian_actions import GaussianEmbedding, GaussianPolicy

__all__ = ["Given", "IDENTICAL", "SUPPORTED", "UNSUPPORTED", "permuted", "problem"]

SUPPORTED = ("discrete actions", "random embeddings", "continuous actions")
"""Worlds in which the logs cover the target policy; the first shares contexts."""

IDENTICAL = tuple(f"{world}, identical policies" for world in SUPPORTED)
"""The same worlds with the logging policy as target."""

UNSUPPORTED = ("an action never logged", "no action in common")
"""Worlds in which the target policy takes actions that the logging policy never takes."""

ACTION_EMBEDDING = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
EMBEDDING_TABLE = np.array(
    [
        [0.4, 0.2, 0.2, 0.1, 0.1],
        [0.1, 0.4, 0.2, 0.2, 0.1],
        [0.1, 0.1, 0.4, 0.2, 0.2],
        [0.2, 0.1, 0.1, 0.2, 0.4],
    ]
)
ATOMS = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [1.0, 0.5], [1.0, 1.0]])
COEFFICIENTS = np.array([[0.6, 0.1, -0.3, -0.5], [-0.2, 0.4, 0.3, -0.4]])


@dataclass(frozen=True)
class Scores:
    """score(x, a) = x @ coefficients; a class, so that problems can be pickled."""

    coefficients: FloatArray

    def __call__(self, context: FloatArray) -> FloatArray:
        """Scores of a chunk: (k, n_actions)."""
        return context[:, :2] @ self.coefficients


@dataclass(frozen=True)
class OneRow:
    """Every context has code 0."""

    def __call__(self, context: FloatArray) -> IntArray:
        """Zeros: (k,)."""
        return np.zeros(len(context), dtype=np.int64)


def problem(world: str, *, seed: int = 0, n: int = 160) -> Problem:
    """The problem of one of the worlds above; equal arguments give equal bits."""
    rng = np.random.default_rng([seed, *world.encode()])
    kind, _, twist = world.partition(", ")
    return _MAKERS[kind](rng, n, twist == "identical policies")


def permuted(given: Problem, rng: np.random.Generator) -> Problem:
    """The same problem with the rows of both samples in another order."""
    logged = rng.permutation(len(given.reward))
    target = logged if given.shared_contexts else rng.permutation(len(given.target_action))
    changed: dict[str, Any] = {
        name: getattr(given, name)[logged]
        for name in ("context", "action", "embedding", "reward", "propensity")
    }
    for name in ("target_context", "target_action", "target_embedding"):
        changed[name] = getattr(given, name)[target]
    return replace(given, **changed)


class Given(Environment):
    """An environment that samples one of these worlds, for trials from end to end."""

    def __init__(self, world: str = SUPPORTED[0], n_samples: int = 160) -> None:
        self.world = world
        self.n_samples = n_samples

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """The world's problem; its truth is the logs' mean, which no check looks at."""
        made = problem(self.world, seed=int(logged_rng.integers(2**31)), n=self.n_samples)
        mean = float(made.reward.mean())
        return made, Truth(mean, 0.0, mean)


def _deterministic(rng: np.random.Generator, n: int, identical: bool) -> Problem:
    scores = Scores(COEFFICIENTS)
    logging = Softmax(scores, 4, beta=-0.5)
    target = logging if identical else Softmax(scores, 4, beta=0.8)
    return _with_action_embedding(rng, n, logging, target)


def _one_missing(rng: np.random.Generator, n: int, identical: bool) -> Problem:
    logging = Tabular(np.array([[0.4, 0.4, 0.2, 0.0]]), OneRow())
    target = Tabular(np.array([[0.1, 0.1, 0.2, 0.6]]), OneRow())
    return _with_action_embedding(rng, n, logging, target)


def _disjoint(rng: np.random.Generator, n: int, identical: bool) -> Problem:
    logging = Tabular(np.array([[0.5, 0.5, 0.0, 0.0]]), OneRow())
    target = Tabular(np.array([[0.0, 0.0, 0.5, 0.5]]), OneRow())
    return _with_action_embedding(rng, n, logging, target)


def _with_action_embedding(
    rng: np.random.Generator, n: int, logging: DiscretePolicy, target: DiscretePolicy
) -> Problem:
    context = rng.standard_normal((n, 2))
    action, propensity = logging.draw(context, rng)
    target_action = target.sample(context, rng)
    embedding = ACTION_EMBEDDING[action]
    columns = (Column("atoms"), Column("atoms"))
    return Problem(
        context,
        action,
        embedding,
        _reward(context, embedding, rng),
        context,
        target_action,
        ACTION_EMBEDDING[target_action],
        4,
        Schema((Column(), Column()), columns),
        propensity,
        logging,
        target,
        ACTION_EMBEDDING,
        DeterministicEmbedding(ACTION_EMBEDDING),
        shared_contexts=True,
    )


def _random_embeddings(rng: np.random.Generator, n: int, identical: bool) -> Problem:
    """Samples of different sizes; the third context column is categorical."""
    scores, distribution = Scores(COEFFICIENTS), FiniteEmbedding(ATOMS, EMBEDDING_TABLE)
    logging = Softmax(scores, 4, beta=0.3)
    target = logging if identical else Softmax(scores, 4, beta=1.0)
    context, target_context = (
        np.column_stack([rng.standard_normal((rows, 2)), rng.integers(3, size=rows)])
        for rows in (n, n - n // 5)
    )
    action, propensity = logging.draw(context, rng)
    target_action = target.sample(target_context, rng)
    embedding = distribution.sample(action, rng)
    return Problem(
        context,
        action,
        embedding,
        _reward(context, embedding, rng),
        target_context,
        target_action,
        distribution.sample(target_action, rng),
        4,
        Schema(
            (Column(), Column(), Column("categorical", (0.0, 1.0, 2.0))),
            (Column("atoms"), Column("atoms")),
        ),
        propensity,
        logging,
        target,
        embedding_distribution=distribution,
    )


def _continuous(rng: np.random.Generator, n: int, identical: bool) -> Problem:
    distribution = GaussianEmbedding(0.3)
    logging = GaussianPolicy(0.5, 0.0, 1.0)
    target = logging if identical else GaussianPolicy(0.5, 0.3, 0.8)
    context = rng.standard_normal((n, 2))
    action = logging.sample(context, rng)
    target_action = target.sample(context, rng)
    embedding = distribution.sample(action, rng)
    return Problem(
        context,
        action,
        embedding,
        _reward(context, embedding, rng),
        context,
        target_action,
        distribution.sample(target_action, rng),
        None,
        propensity=logging.probability(context, action),
        logging_policy=logging,
        target_policy=target,
        embedding_distribution=distribution,
        shared_contexts=True,
    )


def _reward(context: FloatArray, embedding: FloatArray, rng: np.random.Generator) -> FloatArray:
    signal = 1.5 + 0.5 * context[:, 0] + embedding.sum(axis=1) * 0.5
    reward: FloatArray = signal + 0.5 * rng.standard_normal(len(context))
    return reward


_MAKERS: dict[str, Callable[[np.random.Generator, int, bool], Problem]] = {
    "discrete actions": _deterministic,
    "random embeddings": _random_embeddings,
    "continuous actions": _continuous,
    "an action never logged": _one_missing,
    "no action in common": _disjoint,
}
