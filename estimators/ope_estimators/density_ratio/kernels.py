"""Smoothing kernels and their bandwidths."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from ope_bench import FloatArray

__all__ = ["Bandwidth", "Kernel", "bandwidth_of", "median_distance", "profile", "silverman"]

Kernel = Literal["rbf", "epanechnikov", "triangular", "cosine"]
"""``rbf`` exp(-u²/2); up to u = 1, zero beyond: ``epanechnikov`` 1 - u², ``triangular`` 1 - u,
``cosine`` cos(πu/2)."""

Bandwidth = Literal["median", "silverman"] | Annotated[float, Gt(0)]
"""A rule, or a width in the units of the embedding."""

SUBSAMPLE = 2_000


def profile(kernel: Kernel, squared: FloatArray) -> FloatArray:
    """Evaluate K at squared scaled distances of any shape; K(0) = 1.

    >>> profile("epanechnikov", np.array([0.0, 0.25, 4.0])).tolist()
    [1.0, 0.75, 0.0]
    >>> profile("triangular", np.array([0.0, 0.25, 4.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    if kernel == "rbf":
        return np.exp(-0.5 * squared)
    if kernel == "epanechnikov":
        return np.maximum(0.0, 1.0 - squared)
    distance = np.minimum(1.0, np.sqrt(squared))
    return 1.0 - distance if kernel == "triangular" else np.cos(0.5 * math.pi * distance)


def bandwidth_of(rule: Bandwidth, points: FloatArray) -> float:
    """Return the kernel's width for ``points`` (k, d)."""
    if rule == "median":
        return median_distance(points)
    if rule == "silverman":
        return silverman(points)
    return rule


def median_distance(points: FloatArray) -> float:
    """Return the median of the non-zero pairwise distances; one if all points are equal.

    Embeddings of few items coincide so often that the median of all distances can be zero. More
    than 2,000 points are replaced by an evenly spaced subsample.

    >>> median_distance(np.array([[0.0], [0.0], [0.0], [3.0]]))
    3.0
    """
    from scipy.spatial.distance import pdist

    step = max(1, math.ceil(len(points) / SUBSAMPLE))
    distances = pdist(points[::step])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def silverman(points: FloatArray) -> float:
    """s (4 / ((d + 2) k))^(1 / (d + 4)), s² the mean variance of the columns; one if that is 0.

    Reference: Density Estimation for Statistics and Data Analysis (Silverman, 1986), eq. 4.14.
    """
    k, d = points.shape
    spread = math.sqrt(float(points.var(axis=0).mean())) if d else 0.0
    return spread * (4.0 / ((d + 2) * k)) ** (1.0 / (d + 4)) or 1.0
