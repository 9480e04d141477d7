"""Policies of a drawn world, as tables over its population of contexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ope_bench import DiscretePolicy, FloatArray, IntArray, RowIndex, Tabular

__all__ = [
    "ByContext",
    "LoggingKind",
    "TargetKind",
    "draw_logging",
    "draw_target",
    "find_contexts",
]

LoggingKind = Literal["softmax", "epsilon-greedy", "uniform", "near-deterministic", "segments"]
TargetKind = Literal[
    "softmax", "epsilon-greedy", "deterministic", "swap", "small-change", "mixture", "large-change"
]


WHOLE_TABLE = 2_500_000
"""Rows times actions up to which drawing from the whole table beats going context by context."""


class ByContext(Tabular):
    """A table of probabilities by context, from which actions are drawn in the cheaper way."""

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw one action per row with its probability: (n,), (n,)."""
        if len(context) * self.n_actions > WHOLE_TABLE:
            return super().draw(context, rng)
        return DiscretePolicy.draw(self, context, rng)


def find_contexts(context: FloatArray) -> Callable[[FloatArray], IntArray]:
    """Return a function that finds rows of contexts, by the first column if it tells all apart.

    Comparing long rows takes time, and so do bytes in place of numbers.
    """
    order = np.argsort(context[:, 0], kind="stable")
    first = context[order, 0]
    if (first[1:] == first[:-1]).any():
        return RowIndex(context)
    index = RowIndex(context[:, :1])

    def find(rows: FloatArray) -> IntArray:
        at = np.minimum(np.searchsorted(first, rows[:, 0]), len(first) - 1)
        # Where one is no context, `RowIndex` says which.
        return order[at] if (first[at] == rows[:, 0]).all() else index(rows[:, :1])

    return find


def draw_logging(kind: LoggingKind, score: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw the logging policy: (n, n_actions).

    Parameters
    ----------
    score : (n, n_actions), standardized; the policy prefers large values.
    """
    if kind == "uniform":
        return np.full(score.shape, 1.0 / score.shape[1])
    if kind == "softmax":
        return _softmax(rng.uniform(0.3, 2.0) * score)
    if kind == "segments":
        # Rules of an organization: segments of users, each with a distribution of its own.
        segments = int(rng.integers(2, 6))
        edges = np.quantile(score[:, 0], np.linspace(0.0, 1.0, segments + 1)[1:-1])
        share = rng.dirichlet(np.full(score.shape[1], 0.5), size=segments)
        share = 0.8 * share + 0.2 / score.shape[1]
        found: FloatArray = share[np.searchsorted(edges, score[:, 0])]
        return found
    low, high = (0.05, 0.5) if kind == "epsilon-greedy" else (0.005, 0.05)
    return _greedy(score, np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_target(
    kind: TargetKind, score: FloatArray, logging: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw the target policy: (n, n_actions).

    Parameters
    ----------
    score : (n, n_actions), standardized; what the new policy prefers.
    logging : (n, n_actions), the logging policy, which some targets start from.
    """
    if kind == "softmax":
        return _softmax(rng.uniform(0.5, 2.5) * score)
    if kind == "epsilon-greedy":
        return _greedy(score, rng.uniform(0.02, 0.3))
    if kind == "deterministic":
        return _greedy(score, 0.0)
    if kind == "swap":
        # Some items take each other's places.
        n_actions = score.shape[1]
        moved = rng.permutation(n_actions)[: max(2, n_actions // 4)]
        place = np.arange(n_actions)
        place[moved] = np.roll(moved, 1)
        return logging[:, place]
    if kind == "mixture":
        share = rng.uniform(0.2, 0.8)
        return share * logging + (1.0 - share) * _softmax(2.0 * score)
    strength = 0.3 if kind == "small-change" else 2.0
    tilted = logging * np.exp(strength * score)
    found: FloatArray = tilted / tilted.sum(axis=1, keepdims=True)
    return found


def _softmax(score: FloatArray) -> FloatArray:
    power = np.exp(score - score.max(axis=1, keepdims=True))
    found: FloatArray = power / power.sum(axis=1, keepdims=True)
    return found


def _greedy(score: FloatArray, epsilon: float) -> FloatArray:
    found = np.full(score.shape, epsilon / score.shape[1])
    found[np.arange(len(score)), score.argmax(axis=1)] += 1.0 - epsilon
    return found
