"""Small problems with known policies, on which estimators are checked.

Rewards have mean about 2 and standard deviation about 1, so that an estimate near 0 is
conspicuous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.embeddings import DeterministicEmbedding, FiniteEmbedding
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.policies import DiscretePolicy, Softmax
from ope_bench.contracts.schema import Column, Schema
from ope_bench.contracts.tabular import Tabular
from ope_bench.testing.gaussian_actions import GaussianEmbedding, GaussianPolicy

__all__ = ["Given", "IDENTICAL", "SUPPORTED", "UNSUPPORTED", "permuted", "problem"]

SUPPORTED = ("discrete actions", "random embeddings", "continuous actions")
"""Names of problems in which the logs cover the target policy; the first shares contexts."""

IDENTICAL = tuple(f"{name}, identical policies" for name in SUPPORTED)
"""The same problems with the logging policy as target."""

UNSUPPORTED = ("an action never logged", "no action in common")
"""Names of problems in which the target policy takes actions that are never logged."""

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
        """Return the scores of a chunk: (k, n_actions)."""
        return context[:, :2] @ self.coefficients


@dataclass(frozen=True)
class OneRow:
    """Code of contexts that is 0 for all."""

    def __call__(self, context: FloatArray) -> IntArray:
        """Return zeros: (k,)."""
        return np.zeros(len(context), dtype=np.int64)


def problem(name: str, *, seed: int = 0, n: int = 160) -> Problem:
    """Build a named problem; equal arguments give bit-identical problems."""
    rng = np.random.default_rng([seed, *name.encode()])
    kind, _, twist = name.partition(", ")
    return _MAKERS[kind](rng, n, twist == "identical policies")


def permuted(given: Problem, rng: np.random.Generator) -> Problem:
    """Shuffle the rows of both samples of a problem."""
    logged = rng.permutation(len(given.reward))
    target = logged if given.shared_contexts else rng.permutation(len(given.target_sample[0]))
    changed: dict[str, Any] = {
        name: getattr(given, name)[logged]
        for name in ("context", "action", "embedding", "reward", "propensity")
    }
    for name in ("target_context", "target_action", "target_embedding"):
        changed[name] = getattr(given, name)[target]
    for name, rows in (("unit", logged), ("target_unit", target)):
        units = getattr(given, name)
        changed[name] = None if units is None else units[rows]
    return replace(given, **changed)


class Given(Environment):
    """An environment that samples one of these problems, for end-to-end trials."""

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
        """Sample the problem; its truth is the logs' mean, which no check uses."""
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
    """Build samples of different sizes; the third context column is categorical."""
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
