"""How far two samples lie among each other."""

from __future__ import annotations

import math

import numpy as np

from ope_bench.arrays import FloatArray, IntArray

__all__ = ["overlap"]

SUBSAMPLE = 2_000


def overlap(points: FloatArray, label: IntArray, rng: np.random.Generator) -> float:
    """Share of points whose nearest neighbour is of the other sample, relative to chance.

    About 1 for two samples of one distribution, 0 for samples apart. Columns are put in standard
    deviations. Distances in the space at hand are what is judged: with ever more points the
    share depends on the ratio of densities alone, which an invertible map leaves as it is.

    Parameters
    ----------
    points : (k, d); of more than 2,000 a subsample
    label : (k,), 0 or 1
    rng : the subsample, and the order of ties

    Reference: Multivariate two-sample tests based on nearest neighbors (Schilling, 1986).
    """
    from scipy.spatial import cKDTree

    chosen = rng.permutation(len(points))[:SUBSAMPLE]
    spread = points.std(axis=0)
    scaled = points[chosen] / np.where(spread > 0, spread, 1.0)
    label = label[chosen]
    n1 = int(label.sum())
    chance = 2.0 * n1 * (len(label) - n1) / (len(label) * max(1, len(label) - 1))
    if chance == 0:
        return math.nan
    # The last column alone tells equal points apart.
    apart = 1e-9 * rng.standard_normal((len(scaled), 1))
    scaled = np.hstack([scaled, apart])
    _, nearest = cKDTree(scaled).query(scaled, k=2)
    other = np.asarray(nearest, dtype=np.int64)[:, 1]
    return float((label[other] != label).mean() / chance)
