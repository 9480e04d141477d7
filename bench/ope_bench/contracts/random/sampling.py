"""Draw indices in proportion to weights, row by row."""

from __future__ import annotations

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray

__all__ = [
    "sample_indices",
]


SPAN = 64
"""Number of actions in a span: `sample_indices` sums spans, then searches within one."""


def sample_indices(weights: FloatArray, uniform: FloatArray) -> IntArray:
    """Draw one index per row in proportion to its weights, by the inverse CDF: (k,).

    Parameters
    ----------
    weights : (k, n), non-negative, not necessarily normalized.
    uniform : (k,), in [0, 1).

    >>> sample_indices(np.array([[1.0, 0.0, 3.0]]), np.array([0.3]))
    array([2])
    """
    n = weights.shape[1]
    if n <= 4 * SPAN:
        cumulative = np.cumsum(weights, axis=1)
        return _first_beyond(cumulative, uniform * cumulative[:, -1])
    # Sums of spans cost a fraction of a cumulative sum over all actions.
    spans = np.cumsum(np.add.reduceat(weights, np.arange(0, n, SPAN), axis=1), axis=1)
    threshold = uniform * spans[:, -1]
    span = _first_beyond(spans, threshold)
    rows = np.arange(len(weights))
    threshold -= np.where(span > 0, spans[rows, span - 1], 0.0)
    columns = span[:, None] * SPAN + np.arange(SPAN)
    inside = weights[rows[:, None], np.minimum(columns, n - 1)]
    inside[columns >= n] = 0.0
    return span * SPAN + _first_beyond(np.cumsum(inside, axis=1), threshold)


def _first_beyond(cumulative: FloatArray, threshold: FloatArray) -> IntArray:
    """Return the first column above the threshold, else (rounding) the last with weight."""
    first = (cumulative <= threshold[:, None]).sum(axis=1)
    last = (cumulative < cumulative[:, -1:]).sum(axis=1)
    index: IntArray = np.minimum(first, last)
    return index
