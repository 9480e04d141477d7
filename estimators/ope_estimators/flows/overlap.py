"""Overlap of two samples."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["nearest_neighbor_overlap"]

SUBSAMPLE = 2_000


def nearest_neighbor_overlap(
    points: FloatArray, label: IntArray, rng: np.random.Generator
) -> float:
    """Return the share of points whose nearest neighbor is of the other sample, over chance.

    About 1 for two samples of one distribution, 0 for separate samples. Columns are scaled by
    standard deviations. The share measures distances in the given space: with ever more points it
    depends on the ratio of densities alone, which an invertible map does not change.

    Parameters
    ----------
    points : (k, d); a subsample of more than 2,000
    label : (k,), 0 or 1
    rng : draws the subsample and the order of ties

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
    # The last column separates equal points.
    apart = 1e-9 * rng.standard_normal((len(scaled), 1))
    scaled = np.hstack([scaled, apart])
    _, nearest = cKDTree(scaled).query(scaled, k=2)
    other = np.asarray(nearest, dtype=np.int64)[:, 1]
    return float((label[other] != label).mean() / chance)
