"""Small problems with known policies, on which estimators are checked."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import ROW_ARRAYS, Column, Problem, Schema, Truth
from ope_bench.contracts.embeddings import (
    DeterministicEmbedding,
    EmbeddingDistribution,
    FiniteEmbedding,
)
from ope_bench.contracts.plugins import Environment
from ope_bench.contracts.policies import PairFunction, Policy, Softmax, Tabular

# Continuous actions for the small problems: Gaussian policies and embeddings.

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)


def _density(z: FloatArray, scale: float) -> FloatArray:
    density: FloatArray = np.exp(-0.5 * (z / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
    return density


@dataclass(frozen=True)
class GaussianPolicy:
    """a | x ~ N(shift + slope x_0, scale^2)."""

    slope: float
    shift: float
    scale: float

    def mean(self, context: FloatArray) -> FloatArray:
        """Return the mean action: (n,)."""
        return self.shift + self.slope * context[:, 0]

    def probability(self, context: FloatArray, action: FloatArray) -> FloatArray:
        """Return the density of each row's action: (n,)."""
        return _density(action - self.mean(context), self.scale)

    def sample(self, context: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one action per row: (n,)."""
        return self.mean(context) + self.scale * rng.standard_normal(len(context))

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Compute E f(x, a) by Gauss-Hermite quadrature, exact for polynomials: (n,)."""
        mean, out = self.mean(context), np.zeros(len(context))
        for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
            out += weight * f(context, mean + self.scale * node)  # type: ignore[arg-type]
        return out


@dataclass(frozen=True)
class GaussianEmbedding:
    """g | a ~ N(a, scale^2), one column."""

    scale: float

    def probability(self, embedding: FloatArray, action: FloatArray) -> FloatArray:
        """Return the density of each row's pair: (n,)."""
        return _density(embedding[:, 0] - action, self.scale)

    def sample(self, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one embedding per row: (n, 1)."""
        return (action + self.scale * rng.standard_normal(len(action)))[:, None]

    def support(self) -> None:
        """Return None: there are infinitely many embeddings."""

    def marginal(self, policy: Policy, context: FloatArray, embedding: FloatArray) -> FloatArray:
        """Return the density in closed form, for Gaussian policies only: (n,)."""
        if not isinstance(policy, GaussianPolicy):
            msg = f"no closed form for {type(policy).__name__}"
            raise TypeError(msg)
        scale = math.hypot(policy.scale, self.scale)
        return _density(embedding[:, 0] - policy.mean(context), scale)


# The problems and their names.

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
    """Build a named problem; equal arguments give bit-identical problems.

    With random embeddings the samples differ in size and the third context column is categorical.
    """
    rng = np.random.default_rng([seed, *name.encode()])
    kind, _, twist = name.partition(", ")
    logging, target = _policies(kind)
    if twist == "identical policies":
        target = logging
    random = kind == "random embeddings"
    continuous = kind == "continuous actions"
    distribution: EmbeddingDistribution = DeterministicEmbedding(ACTION_EMBEDDING)
    columns: tuple[Column, ...] = (Column(), Column())
    if random:
        distribution = FiniteEmbedding(ATOMS, EMBEDDING_TABLE)
        columns += (Column("categorical", (0.0, 1.0, 2.0)),)
        context, target_context = (
            np.column_stack([rng.standard_normal((rows, 2)), rng.integers(3, size=rows)])
            for rows in (n, n - n // 5)
        )
    else:
        context = target_context = rng.standard_normal((n, 2))
    if continuous:
        distribution = GaussianEmbedding(0.3)
    action = logging.sample(context, rng)
    target_action = target.sample(target_context, rng)
    embedding = distribution.sample(action, rng)
    propensity = logging.probability(context, action)
    # Single actions are lists of one item, and one logger is several.
    both = np.stack([propensity, target.probability(context, action)], axis=1)
    lists = None if continuous else both
    signal = 1.5 + 0.5 * context[:, 0] + embedding.sum(axis=1) * 0.5
    return Problem(
        context,
        action,
        embedding,
        signal + 0.5 * rng.standard_normal(n),
        target_context,
        target_action,
        distribution.sample(target_action, rng),
        None if continuous else 4,
        None if continuous else Schema(columns, (Column("atoms"), Column("atoms"))),
        propensity,
        logging,
        target,
        None if random or continuous else ACTION_EMBEDDING,
        distribution,
        shared_contexts=not random,
        prefix_propensity=lists,
        joint_propensity=lists,
        position_marginals=None if continuous else both[:, None],
        stratum=np.arange(n) % 2,
        stratum_policies=(logging, logging),
    )


def _policies(kind: str) -> tuple[Policy, Policy]:
    """Return the logging and the target policy of a kind of problem."""
    if kind == "continuous actions":
        return GaussianPolicy(0.5, 0.0, 1.0), GaussianPolicy(0.5, 0.3, 0.8)
    if kind in UNSUPPORTED:
        disjoint = kind == "no action in common"
        logging = [0.5, 0.5, 0.0, 0.0] if disjoint else [0.4, 0.4, 0.2, 0.0]
        target = [0.0, 0.0, 0.5, 0.5] if disjoint else [0.1, 0.1, 0.2, 0.6]
        return Tabular(np.array([logging]), OneRow()), Tabular(np.array([target]), OneRow())
    scores = Scores(COEFFICIENTS)
    betas = (-0.5, 0.8) if kind == "discrete actions" else (0.3, 1.0)
    return Softmax(scores, 4, beta=betas[0]), Softmax(scores, 4, beta=betas[1])


def array_hashes(data: object, prefix: str = "") -> dict[str, str]:
    """Hash the arrays among an object's attributes, by name with a prefix."""
    return {
        prefix + name: hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        for name, value in vars(data).items()
        if isinstance(value, np.ndarray)
    }


def permuted(given: Problem, rng: np.random.Generator) -> Problem:
    """Shuffle the rows of both samples of a problem."""
    logged = rng.permutation(len(given.reward))
    target = logged if given.shared_contexts else rng.permutation(len(given.target_sample[0]))
    changed: dict[str, Any] = {}
    for prefix, rows in (("", logged), ("target_", target)):
        for name in ROW_ARRAYS:
            values = getattr(given, prefix + name, None)
            if values is not None:
                changed[prefix + name] = values[rows]
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
