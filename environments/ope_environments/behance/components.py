"""Principal components of features that do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ope_bench import FloatArray

__all__ = ["Run", "exact_components", "streamed_components"]

Run = Callable[[], Iterator[np.ndarray]]
"""Starts a pass over the rows in use, in chunks of features (k, width)."""

SPARE = 16
"""Additional components while streaming, which are dropped at the end.

An incremental decomposition then loses only directions far from the requested ones.
"""


def streamed_components(run: Run, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Compute scores (n, n_components) and explained variance shares in two passes over the rows.

    By scikit-learn's IncrementalPCA, whose memory is a few chunks for any number of rows.

    Raises
    ------
    ValueError : there are fewer rows than components.
    """
    from threadpoolctl import threadpool_limits

    # Decompositions of this size gain little from threads, and are slow with threads on busy
    # cores; one thread also gives the same bits on every machine with the same BLAS.
    with threadpool_limits(1):
        return _streamed(run, n_components)


def _streamed(run: Run, n_components: int) -> tuple[FloatArray, FloatArray]:
    from sklearn.decomposition import IncrementalPCA

    model = None
    held: list[np.ndarray] = []
    for chunk in run():
        held.append(chunk)
        if model is None:
            # The first fit needs at least as many rows as there are components.
            rows = sum(map(len, held))
            if rows < n_components + SPARE:
                continue
            model = IncrementalPCA(n_components=min(n_components + SPARE, chunk.shape[1]))
        model.partial_fit(np.concatenate(held))
        held = []
    if model is None:
        rows = sum(map(len, held))
        if rows < n_components:
            msg = f"{rows} items with features are too few for {n_components} components"
            raise ValueError(msg)
        model = IncrementalPCA(n_components=min(rows, n_components + SPARE, held[0].shape[1]))
        model.partial_fit(np.concatenate(held))
    elif held:
        model.partial_fit(np.concatenate(held))
    axes = _upright(model.components_[:n_components].astype(np.float64))
    mean = model.mean_.astype(np.float64)
    scores = np.concatenate([_scores(chunk, mean, axes) for chunk in run()])
    return scores, model.explained_variance_ratio_[:n_components].astype(np.float64)


def exact_components(features: np.ndarray, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Compute components of features in memory, by the eigenvectors of their covariance."""
    mean = features.mean(axis=0, dtype=np.float64)
    centered = features - mean
    values, vectors = np.linalg.eigh(centered.T @ centered)
    axes = _upright(vectors[:, ::-1][:, :n_components].T)
    return centered @ axes.T, values[::-1][:n_components] / values.sum()


def _scores(chunk: np.ndarray, mean: FloatArray, axes: FloatArray) -> FloatArray:
    # Centered after the product, so that no second array of the chunk's size is allocated.
    scores: FloatArray = chunk @ axes.T.astype(chunk.dtype) - mean @ axes.T
    return scores


def _upright(axes: FloatArray) -> FloatArray:
    """Flip signs such that each axis's largest entry is positive."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    upright: FloatArray = axes * np.sign(largest)
    return upright
