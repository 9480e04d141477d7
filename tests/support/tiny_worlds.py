"""Bandits small enough to enumerate: every expectation is a finite sum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_bench.contracts.data import Column, Problem, Schema
from ope_bench.contracts.embeddings import DeterministicEmbedding, FiniteEmbedding
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.policies import Tabular
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View


def code(context):
    return context[:, 0].astype(np.int64)


@dataclass(frozen=True, eq=False)
class TinyWorld:
    """One discrete context, a few actions, a few embeddings, rewards q(x, a, g) ± noise.

    p: (X,), pi0 and pi1: (X, A), q: (X, A, K), table: (A, K), atoms: (K, d)
    """

    p: np.ndarray
    pi0: np.ndarray
    pi1: np.ndarray
    q: np.ndarray
    table: np.ndarray
    atoms: np.ndarray
    noise: float = 0.5
    deterministic: bool = False
    categorical: bool = False

    @property
    def n_actions(self) -> int:
        return self.pi0.shape[1]

    def expectation(self, weights, f=None) -> float:
        """sum over x, a, g of p(x) weights(x, a) p(g|a) f(x, a, g); f is q by default."""
        f = self.q if f is None else f
        return float(np.einsum("x,xa,ag,xag->", self.p, weights, self.table, f))

    @property
    def value(self) -> float:
        return self.expectation(self.pi1)

    @property
    def weights(self):
        """w(x, a): (X, A)."""
        return np.divide(self.pi1, self.pi0, out=np.zeros_like(self.pi1), where=self.pi0 > 0)

    @property
    def embedding_weights(self):
        """w(x, g): (X, K)."""
        return (self.pi1 @ self.table) / (self.pi0 @ self.table)

    def sample(self, n: int, rng: np.random.Generator, *, shared: bool = False) -> Problem:
        x, a, g = self._rows(self.pi0, n, rng)
        r = self.q[x, a, g] + self.noise * rng.choice([-1.0, 1.0], n)
        y, b, h = self._rows(self.pi1, n, rng, x if shared else None)
        return self.problem(x, a, g, r, (y, b, h), shared)

    def _rows(self, policy, n, rng, x=None):
        x = rng.choice(len(self.p), n, p=self.p) if x is None else x
        a = (np.cumsum(policy, axis=1)[x] <= rng.random(n)[:, None]).sum(axis=1)
        a = np.minimum(a, self.n_actions - 1)
        g = (np.cumsum(self.table, axis=1)[a] <= rng.random(n)[:, None]).sum(axis=1)
        return x, a, np.minimum(g, len(self.atoms) - 1)

    def problem(self, x, a, g, r, target, shared=False) -> Problem:
        y, b, h = target
        embeddings: Any = FiniteEmbedding(self.atoms, self.table)
        own = None
        if self.deterministic:
            own = self.atoms[self.table.argmax(axis=1)]
            embeddings = DeterministicEmbedding(own)
        schema = None
        if self.categorical:
            codes = Column("categorical", tuple(map(float, range(len(self.p)))))
            schema = Schema((codes,), (Column("atoms"),) * self.atoms.shape[1])
        return Problem(
            context=np.asarray(x, dtype=float)[:, None],
            action=a,
            embedding=self.atoms[g],
            reward=r,
            target_context=np.asarray(y, dtype=float)[:, None],
            target_action=b,
            target_embedding=self.atoms[h],
            n_actions=self.n_actions,
            schema=schema,
            propensity=self.pi0[x, a],
            logging_policy=Tabular(self.pi0, code),
            target_policy=Tabular(self.pi1, code),
            action_embedding=own,
            embedding_distribution=embeddings,
            shared_contexts=shared,
        )

    def every_sample(self, n: int) -> Iterator[tuple[float, Problem]]:
        """All samples of n logged rows that can happen, each with its probability."""
        rows = []
        for x, a, g in np.ndindex(self.q.shape):
            probability = self.p[x] * self.pi0[x, a] * self.table[a, g] / 2
            if probability > 0:
                rows += [
                    (probability, x, a, g, self.q[x, a, g] + sign * self.noise)
                    for sign in (-1.0, 1.0)
                ]
        nowhere = np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.zeros(1, dtype=int)
        for combination in itertools.product(rows, repeat=n):
            p, x, a, g, r = map(np.array, zip(*combination, strict=True))
            yield float(p.prod()), self.problem(x, a, g, r, nowhere)

    def population(self) -> Problem:
        """A sample in which everything is exactly as frequent as it is probable.

        What an estimator says of it is what it tends to.
        """
        joint = np.einsum("x,xa,ag->xag", self.p, self.pi0, self.table)
        x, a, g = _repeated(joint, 500)
        sign = np.tile([-1.0, 1.0], len(x))
        x, a, g = (np.repeat(part, 2) for part in (x, a, g))
        target = _repeated(np.einsum("x,xa,ag->xag", self.p, self.pi1, self.table), 500)
        return self.problem(x, a, g, self.q[x, a, g] + self.noise * sign, target)

    def but(self, **changes: Any) -> TinyWorld:
        return replace(self, **changes)


def _repeated(joint, total):
    """Index arrays of the cells, each as often as its share of ``total`` says."""
    counts = joint.ravel() * total
    assert np.allclose(counts, np.round(counts)), "the world's probabilities do not divide"
    cells = np.repeat(np.arange(joint.size), np.round(counts).astype(int))
    return np.unravel_index(cells, joint.shape)


def small() -> TinyWorld:
    """Two contexts, three actions, two embeddings; the reward knows the action."""
    atoms = np.array([[0.3, -1.0], [-0.4, 0.8]])
    return TinyWorld(
        p=np.array([0.4, 0.6]),
        pi0=np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]),
        pi1=np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]),
        q=np.array([[[1.0, 0.5], [0.2, 2.0], [3.0, 1.5]], [[0.0, 1.0], [2.5, 0.3], [1.2, 0.7]]]),
        table=np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]),
        atoms=atoms,
    )


def through_embedding() -> TinyWorld:
    """As `small`, with rewards that depend on the action through its embedding only."""
    q = np.array([[1.0, 3.0], [2.0, 0.5]])
    return small().but(q=np.repeat(q[:, None, :], 3, axis=1))


def view_of(
    problem: Problem,
    access: Access = Access.SAMPLES,
    *,
    optional: Access = Access.SAMPLES,
    seed: int = 0,
) -> View:
    seeds = DataSeed("tiny", seed, 0)
    return View(problem, access, optional=optional, seed=seeds, fit_cache=FitCache())


def run(estimator: Estimator, problem: Problem, *, seed: int = 0) -> Estimate:
    """What the estimator says, given what it asked for."""
    view = view_of(problem, estimator.access, optional=estimator.optional_access, seed=seed)
    estimator.fit(view, rng=np.random.default_rng(seed), device="cpu")
    estimate = estimator.estimate(view)
    assert not view.violations
    return estimate


class GivenMatrix:
    """Smooths by a given S, at one bandwidth."""

    def __init__(self, matrix: np.ndarray) -> None:
        self._columns = matrix.T

    def columns(self, action: np.ndarray) -> Iterator[np.ndarray]:
        yield self._columns[action]
