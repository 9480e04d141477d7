"""Policies over very many items in very few contexts."""

from __future__ import annotations

import numpy as np

from ope_bench.arrays import CHUNK_ENTRIES, FloatArray, IntArray
from ope_bench.policies import PairFunction, Tabular

__all__ = ["ByContext", "creator_code", "epsilon_top", "popularity"]


def creator_code(context: FloatArray) -> IntArray:
    """0 or 1, the only context there is: (n,)."""
    return context[:, 0].astype(np.int64)


class ByContext(Tabular):
    """A table with a row for each of the few contexts.

    Sums over actions are done once a context, not once a row, so that estimators which sum over
    178,788 items remain possible.

    Parameters
    ----------
    probabilities : (n_contexts, n_actions), each row summing to one.
    """

    def __init__(self, probabilities: FloatArray) -> None:
        super().__init__(probabilities, creator_code)
        self.full_support = bool((probabilities > 0).all())
        self._cumulative = np.cumsum(probabilities, axis=1)

    def draw(self, context: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Inverse-CDF sampling in tables made once."""
        uniform = rng.random(len(context))
        code = self.code(context)
        action = np.empty(len(context), dtype=np.int64)
        for value, cumulative in enumerate(self._cumulative):
            rows = code == value
            threshold = uniform[rows] * cumulative[-1]
            found = np.searchsorted(cumulative, threshold, side="right")
            # Rounding may leave a threshold at the very end.
            action[rows] = np.minimum(found, self.n_actions - 1)
        return action, self.probabilities[code, action]

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Sum over actions of pi(a|x) f(x, a), once a different context: (n,)."""
        different, code = np.unique(context, axis=0, return_inverse=True)
        sums = np.zeros(len(different))
        for k, row in enumerate(different):
            probability = self.table(row[None])[0]
            for start in range(0, self.n_actions, CHUNK_ENTRIES):
                action = np.arange(start, min(start + CHUNK_ENTRIES, self.n_actions))
                sums[k] += probability[action] @ f(np.repeat(row[None], len(action), 0), action)
        expected: FloatArray = sums[code.reshape(-1)]
        return expected


def epsilon_top(counts: IntArray, k: int, epsilon: float) -> FloatArray:
    """Uniform over the k largest counts of a row, and over all with probability epsilon.

    Of tied counts, the earlier items win.

    >>> epsilon_top(np.array([[3, 5, 5, 0]]), 1, 0.4)
    array([[0.1, 0.7, 0.1, 0.1]])
    """
    best = np.argsort(-counts, axis=1, kind="stable")[:, :k]
    table = np.full(counts.shape, epsilon / counts.shape[1])
    np.put_along_axis(table, best, epsilon / counts.shape[1] + (1.0 - epsilon) / k, axis=1)
    return table


def popularity(counts: IntArray, beta: float) -> FloatArray:
    """softmax(beta * log(1 + count)) of each row.

    >>> popularity(np.array([[0, 1, 2]]), 1.0)
    array([[0.16666667, 0.33333333, 0.5       ]])
    """
    logits = beta * np.log1p(counts)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    table: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return table
