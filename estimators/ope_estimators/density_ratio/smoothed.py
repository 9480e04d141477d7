"""The smoothed ratio: a ratio of two kernel-smoothed densities."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, View, row_chunks
from ope_estimators.density_ratio.judgement import ratio_diagnostics
from ope_estimators.density_ratio.kernels import (
    Bandwidth,
    Kernel,
    bandwidth_of,
    profile,
    silverman,
)
from ope_estimators.density_ratio.ratio import LARGEST_LOG_RATIO, Ratio
from ope_estimators.features.composition import encode

__all__ = ["smoothed_ratio"]


def smoothed_ratio(view: View, kernel: Kernel, bandwidth: Bandwidth) -> Ratio:
    """Estimate log (K_h * π̂1)(g|c) / (K_h * π̂0)(g|c), contexts smoothed as well.

        w(g, c) = (1/m) sum_j K_h(G'_j - g) K_b(C'_j - c) / (1/n) sum_j K_h(G_j - g) K_b(C_j - c)

    Both policies are smoothed by the same kernel and no other weight is applied: the bias is of
    order h² + b² and vanishes with the widths, unlike that of the paper's pair kernel. Contexts
    are scaled by standard deviations, with Silverman's width; categories must match. A row's own
    term keeps the denominator positive and bounds the weights.

    Assumptions: every target row has logged neighbors within h.
    Fails when: the dimension is larger than a few.

    Reference: Off-policy evaluation for large action spaces via policy convolution (Sachdeva et
    al., 2024) smooths both policies in this way, with known probabilities.
    """
    pooled = np.concatenate([view.embedding, view.target_embedding])
    embeddings = encode(pooled, view.schema.embedding)
    points = np.hstack([embeddings / bandwidth_of(bandwidth, embeddings), _contexts(view)])
    logged, target = points[: view.n], points[view.n :]
    density1 = _density(kernel, points, target)
    density0 = _density(kernel, points, logged)
    with np.errstate(divide="ignore"):
        log_ratio = np.log(density1) - np.log(density0)
    # At most one of the densities is zero, because a row is a neighbor of itself.
    bounded = np.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    label = np.repeat([0, 1], [view.n, view.m])
    return Ratio(bounded[: view.n], bounded[view.n :], ratio_diagnostics(bounded, label))


def _contexts(view: View) -> FloatArray:
    """Return the contexts of both samples in units of their kernel's width: (n + m, width)."""
    pooled = np.concatenate([view.context, view.target_context])
    coded = encode(pooled, view.schema.context)
    if not coded.shape[1]:
        return coded
    deviation = coded.std(axis=0)
    spread = np.where(deviation > 0, deviation, 1.0)
    scaled: FloatArray = coded / spread
    scaled /= silverman(scaled)
    at = 0
    for column in view.schema.context:
        width = 1
        if column.kind == "categorical":
            width = max(1, len(column.categories) - 1)
            # Different categories are far apart for any width, so only equal ones are neighbors.
            scaled[:, at : at + width] = 1e3 * coded[:, at : at + width]
        at += width
    return scaled


def _density(kernel: Kernel, at: FloatArray, sample: FloatArray) -> FloatArray:
    """Return the mean kernel of each point over a sample: (len(at),)."""
    out = np.empty(len(at))
    norms = np.square(sample).sum(axis=1)
    for rows in row_chunks(len(at), len(sample)):
        part = at[rows]
        squared = np.square(part).sum(axis=1)[:, None] + norms - 2.0 * part @ sample.T
        out[rows] = profile(kernel, np.maximum(squared, 0.0)).mean(axis=1)
    return out
