"""Row-stochastic matrices S that move probability between actions with like embeddings.

S is as large as the number of actions squared, so that it is computed by columns, as many of them
as an estimator has logged rows in a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np

from ope_bench import FloatArray, IntArray, UnavailableError, row_chunks

__all__ = ["ActionSmoother", "Smoother", "Smoothing", "action_smoother", "usual_bandwidths"]

Smoothing = Literal["kernel", "knn", "tree"]

EXPONENTS = range(-4, 3)
"""Of the powers of two among which a bandwidth in median distances is chosen."""

MOST_PAIRS = 1 << 27
"""Most pairs of actions whose order or tree is held (up to 0.5 GB)."""

MOST_FOR_MEDIAN = 2_000
"""Actions between which the median distance is taken; evenly spaced ones of more."""


class Smoother(Protocol):
    """Columns of S at several bandwidths."""

    def columns(self, action: IntArray) -> Iterator[FloatArray]:
        """Yield S[:, a_1], ..., S[:, a_k] as rows, (k, n_actions), for each bandwidth."""


def usual_bandwidths(smoothing: Smoothing, n_actions: int) -> FloatArray:
    """Return the bandwidths among which a rule chooses, the first without smoothing.

    >>> usual_bandwidths("knn", 10).tolist()
    [1.0, 2.0, 4.0, 8.0, 10.0]
    """
    if smoothing == "knn":
        powers = [2.0**k for k in range(n_actions.bit_length()) if 2**k < n_actions]
        return np.array([*powers, float(n_actions)])
    return np.array([0.0, *(2.0**k for k in EXPONENTS)])


def action_smoother(
    smoothing: Smoothing, features: FloatArray, bandwidths: FloatArray
) -> ActionSmoother:
    """Make S, whose row b says where the probability of action b goes.

    Rows sum to one. Bandwidth 0 (or, for ``knn``, 1) is the identity.

    Parameters
    ----------
    smoothing : the form.
    features : (n_actions, d), of the actions.
    bandwidths : in median distances of different features; for ``knn`` numbers of actions.

    Raises
    ------
    UnavailableError : more than `MOST_PAIRS` pairs of actions, for ``knn`` and ``tree``.
    """
    if smoothing == "kernel":
        return KernelSmoother(features, bandwidths)
    if len(features) ** 2 > MOST_PAIRS:
        msg = (
            f"smoothing = '{smoothing}' holds all pairs of {len(features):,} actions (at most "
            f"{MOST_PAIRS:,} pairs); set smoothing to 'kernel'"
        )
        raise UnavailableError(msg)
    return (NearestSmoother if smoothing == "knn" else TreeSmoother)(features, bandwidths)


class ActionSmoother:
    """Base: S without smoothing is the identity; a subclass computes the other columns.

    Parameters
    ----------
    features : (n_actions, d)
    bandwidths : (k,)
    """

    def __init__(self, features: FloatArray, bandwidths: FloatArray) -> None:
        self._features = features
        self._bandwidths = bandwidths

    def columns(self, action: IntArray) -> Iterator[FloatArray]:
        """Yield some columns of S as rows, (k, n_actions), for each bandwidth."""
        raise NotImplementedError

    def _identity(self, action: IntArray) -> FloatArray:
        table = np.zeros((len(action), len(self._features)))
        table[np.arange(len(action)), action] = 1.0
        return table

    def _widths(self) -> FloatArray:
        """Return the bandwidths in units of the features: (k,)."""
        from scipy.spatial.distance import pdist

        step = -(-len(self._features) // MOST_FOR_MEDIAN)
        distances = pdist(self._features[::step])
        positive = distances[distances > 0]
        median = float(np.median(positive, overwrite_input=True)) if len(positive) else 1.0
        widths: FloatArray = self._bandwidths * median
        return widths


class KernelSmoother(ActionSmoother):
    """S(b, a) proportional to exp(-|e_a - e_b|² / (2 h²))."""

    def __init__(self, features: FloatArray, bandwidths: FloatArray) -> None:
        super().__init__(features, bandwidths)
        self._width = self._widths()
        everyone = np.arange(len(features))
        # The sum of row b: the kernel is symmetric.
        self._total = np.ones((len(bandwidths), len(features)))
        for rows in row_chunks(len(features), len(features)):
            for k, kernel in enumerate(self._kernels(everyone[rows])):
                self._total[k, rows] = kernel.sum(axis=1)

    def columns(self, action: IntArray) -> Iterator[FloatArray]:
        """Divide the kernel by the sums of its rows."""
        for total, kernel in zip(self._total, self._kernels(action), strict=True):
            kernel /= total
            yield kernel

    def _kernels(self, action: IntArray) -> Iterator[FloatArray]:
        from scipy.spatial.distance import cdist

        square = cdist(self._features[action], self._features, "sqeuclidean")
        for width in self._width:
            yield self._identity(action) if width == 0 else np.exp(square / (-2.0 * width**2))


class NearestSmoother(ActionSmoother):
    """S(b, a) = 1/k for the k actions nearest to b, itself first."""

    def __init__(self, features: FloatArray, bandwidths: FloatArray) -> None:
        from scipy.spatial.distance import cdist

        super().__init__(features, bandwidths)
        n = len(features)
        # rank[a, b]: how many actions are nearer to b than a is.
        self._rank = np.empty((n, n), dtype=np.uint16)
        for rows in row_chunks(n, n):
            distance = cdist(features[rows], features)
            # Of actions at the same distance an action itself comes first.
            distance[np.arange(len(distance)), np.arange(rows.start, rows.stop)] = -1.0
            order = np.argsort(distance, axis=1, kind="stable")
            rank = np.empty(order.shape, dtype=np.uint16)
            np.put_along_axis(rank, order, np.arange(n, dtype=np.uint16)[None], axis=1)
            self._rank[:, rows] = rank.T

    def columns(self, action: IntArray) -> Iterator[FloatArray]:
        """Compare ranks with the number of neighbors."""
        rank = self._rank[action]
        for width in self._bandwidths:
            number = min(len(self._rank), max(1, round(width)))
            yield np.where(rank < number, 1.0 / number, 0.0)


class TreeSmoother(ActionSmoother):
    """S(b, a) = 1/size within clusters of an average-linkage tree, cut at a height."""

    def __init__(self, features: FloatArray, bandwidths: FloatArray) -> None:
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import pdist

        super().__init__(features, bandwidths)
        alone = np.arange(len(features))
        tree = linkage(pdist(features), "average") if len(features) > 1 else None
        self._cluster = [
            alone if tree is None or width == 0 else fcluster(tree, width, criterion="distance")
            for width in self._widths()
        ]

    def columns(self, action: IntArray) -> Iterator[FloatArray]:
        """Compare clusters."""
        for cluster in self._cluster:
            near = np.equal.outer(cluster[action], cluster).astype(np.float64)
            near /= near.sum(axis=1, keepdims=True)
            yield near
