"""Bases of functions in which density ratios are linear."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ope_bench import FloatArray, View
from ope_estimators.density_ratio.kernels import median_distance
from ope_estimators.features.composition import compose

__all__ = ["Basis", "basis_functions", "standardize", "standardized"]

Basis = Literal["linear", "fourier", "nystroem", "forest"]

SIZE = 200
"""Functions of the bases ``fourier`` and ``nystroem``."""

TREES, DEPTH = 20, 5


def standardized(view: View) -> tuple[FloatArray, FloatArray]:
    """Return embedding and context of both samples, standardized over both.

    Returns
    -------
    (n, d), (m, d)
    """
    return standardize(compose(view, "concat").pooled, view.n)


def standardize(pooled: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Scale columns to mean 0 and variance 1; then separate n logged rows from target rows."""
    spread = pooled.std(axis=0)
    scaled = (pooled - pooled.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled[:n], scaled[n:]


def basis_functions(
    basis: Basis, logged: FloatArray, target: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return values of a constant and of the basis at the rows of both samples: (n, k), (m, k).

    ``linear``: the columns. ``fourier``: random cosines of a Gaussian kernel; ``nystroem``: that
    kernel's projection on `SIZE` rows; both with the median distance as width. ``forest``:
    indicators of the leaves of random trees on the pooled sample.
    """
    pooled = np.concatenate([logged, target])
    if basis == "linear":
        values = pooled
    elif basis == "fourier":
        frequency = rng.standard_normal((pooled.shape[1], SIZE)) / median_distance(pooled)
        values = np.cos(pooled @ frequency + rng.uniform(0.0, 2.0 * np.pi, SIZE))
    else:
        seed = int(rng.integers(2**31))
        if basis == "nystroem":
            from sklearn.kernel_approximation import Nystroem

            gamma = 0.5 / median_distance(pooled) ** 2
            size = min(SIZE, len(pooled))
            values = Nystroem(gamma=gamma, n_components=size, random_state=seed).fit_transform(
                pooled
            )
        else:
            from sklearn.ensemble import RandomTreesEmbedding

            forest = RandomTreesEmbedding(
                TREES, max_depth=DEPTH, sparse_output=False, random_state=seed
            )
            values = forest.fit_transform(pooled)
    table = np.column_stack([np.ones(len(pooled)), values])
    return table[: len(logged)], table[len(logged) :]
