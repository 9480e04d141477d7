"""Tables of policies that prefer the most appreciated items."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["creator_code", "epsilon_top", "popularity"]


def creator_code(context: FloatArray) -> IntArray:
    """Return the code of the only context column, 0 or 1: (n,)."""
    return context[:, 0].astype(np.int64)


def epsilon_top(counts: IntArray, k: int, epsilon: float) -> FloatArray:
    """Return a policy uniform over the k largest counts of a row; over all with prob. epsilon.

    Of tied counts, the earlier items are chosen.

    >>> epsilon_top(np.array([[3, 5, 5, 0]]), 1, 0.4)
    array([[0.1, 0.7, 0.1, 0.1]])
    """
    best = np.argsort(-counts, axis=1, kind="stable")[:, :k]
    table = np.full(counts.shape, epsilon / counts.shape[1])
    np.put_along_axis(table, best, epsilon / counts.shape[1] + (1.0 - epsilon) / k, axis=1)
    return table


def popularity(counts: IntArray, beta: float) -> FloatArray:
    """Return softmax(beta * log(1 + count)) of each row.

    >>> popularity(np.array([[0, 1, 2]]), 1.0)
    array([[0.16666667, 0.33333333, 0.5       ]])
    """
    logits = beta * np.log1p(counts)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    table: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return table
