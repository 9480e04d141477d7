"""A regression fitted to differences of rewards within clusters of actions first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ope_bench import FloatArray, IntArray, row_chunks
from ope_estimators.learning.learners import fitted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["PairwiseRegressor", "mean_differences"]


class PairwiseRegressor:
    """E[y|x, a] = h(x, a) + g(x, φ(a)), h from differences within clusters, g from the rest.

    h is fitted to each row's mean difference from the rows of its cluster, near contexts counting
    more: whatever function of context and cluster the reward has drops out of the differences.
    Then g is fitted to y - h on the context and indicators of the clusters. A row that is alone in
    its cluster has no difference and takes part in the second fit only.

    Parameters
    ----------
    make : builds an unfitted regressor.
    n_context : number of context columns.

    References
    ----------
    Off-policy evaluation for large action spaces via conjunct effect modeling (Saito, Ren and
    Joachims, 2023), section 4.2, where contexts of a pair are equal.
    """

    takes_units = True

    def __init__(self, make: Callable[[], Any], n_context: int) -> None:
        self.make = make
        self.n_context = n_context

    def fit(self, features: ArrayLike, outcome: ArrayLike, unit: IntArray | None = None) -> Self:
        """Fit to ``features`` (k, 1 + n_context + ...) and ``outcome`` (k,).

        The columns are the cluster, the context, and the features of h.
        """
        table = np.asarray(features, dtype=np.float64)
        y = np.asarray(outcome, dtype=np.float64)
        cluster, context, within = self._split(table)
        self.clusters_ = np.unique(cluster)
        difference, paired = mean_differences(context, cluster, y)
        self.within_ = None
        rest = y
        if paired.any():
            units = None if unit is None else unit[paired]
            self.within_ = fitted(self.make(), within[paired], difference[paired], units)
            rest = y - _predicted(self.within_, within)
        self.between_ = fitted(self.make(), self._between(cluster, context), rest, unit)
        return self

    def predict(self, features: ArrayLike) -> FloatArray:
        """Predict the outcome: (k,)."""
        cluster, context, within = self._split(np.asarray(features, dtype=np.float64))
        out = _predicted(self.between_, self._between(cluster, context))
        return out if self.within_ is None else out + _predicted(self.within_, within)

    def _split(self, table: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return table[:, 0], table[:, 1 : 1 + self.n_context], table[:, 1 + self.n_context :]

    def _between(self, cluster: FloatArray, context: FloatArray) -> FloatArray:
        # The first cluster has no column, so that none is the sum of others.
        indicators = (cluster[:, None] == self.clusters_[1:]).astype(np.float64)
        return np.hstack([context, indicators]) if len(self.clusters_) > 1 else _some(context)


def mean_differences(
    context: FloatArray, cluster: FloatArray, outcome: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of y_i - y_j over other rows j of the cluster, and whether any exist: (k,).

    Rows are weighted by a Gaussian kernel of their contexts' distance, with Silverman's width in
    standardized contexts.
    """
    spread = context.std(axis=0)
    scaled = (context - context.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    d = context.shape[1]
    scaled = scaled / (4.0 / ((d + 2) * len(scaled))) ** (1.0 / (d + 4))
    difference = np.zeros(len(outcome))
    paired = np.zeros(len(outcome), dtype=bool)
    for one in np.unique(cluster):
        member = np.flatnonzero(cluster == one)
        if len(member) < 2:
            continue
        paired[member] = True
        points, y = scaled[member], outcome[member]
        norm = np.square(points).sum(axis=1)
        for rows in row_chunks(len(member), len(member)):
            squared = norm[rows, None] + norm - 2.0 * points[rows] @ points.T
            own = np.arange(rows.start, rows.stop)
            squared[own - rows.start, own] = np.inf
            # Relative to the nearest row, so that a row far from all others has a neighbor.
            near = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)))
            difference[member[rows]] = y[rows] - near @ y / near.sum(axis=1)
    return difference, paired


def _some(context: FloatArray) -> FloatArray:
    """Return the context or, without columns, one of zeros: a regressor needs a column."""
    return context if context.shape[1] else np.zeros((len(context), 1))


def _predicted(model: Any, table: FloatArray) -> FloatArray:
    return np.asarray(model.predict(table), dtype=np.float64).reshape(-1)
