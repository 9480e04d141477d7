"""Contexts of a drawn world: numbers and categories, some of them missing."""

from __future__ import annotations

import numpy as np

from ope_bench import Column, FloatArray

__all__ = ["draw_contexts", "draw_positions", "draw_vectors"]

MISSING_SHARE = 0.02


def draw_contexts(
    n: int, rng: np.random.Generator, numbers: int | None = None
) -> tuple[FloatArray, tuple[Column, ...]]:
    """Draw a population of contexts and the kinds of its columns: (n, d_context).

    Correlated numbers (normal, log-normal or counts), up to two categorical columns of two to
    eight levels, and in one world of four values missing in a column of numbers: these are shown
    as the column's median, beside a column that marks them.

    Parameters
    ----------
    n : number of contexts.
    rng : draws them.
    numbers : how many columns of numbers; one to six where None.
    """
    numbers = int(rng.integers(1, 7)) if numbers is None else numbers
    loading = rng.standard_normal((numbers, numbers)) / np.sqrt(numbers)
    normal = rng.standard_normal((n, numbers)) @ (0.5 * loading + np.eye(numbers))
    parts: list[FloatArray] = []
    kinds: list[Column] = []
    for k in range(numbers):
        kind = rng.choice(["normal", "log-normal", "count"], p=[0.5, 0.3, 0.2])
        value = normal[:, k]
        if kind == "log-normal":
            value = np.exp(0.7 * value)
        elif kind == "count":
            value = rng.poisson(np.exp(0.6 * np.clip(value, -4.0, 4.0) + 1.0)).astype(np.float64)
        parts.append(value)
        kinds.append(Column())
    if rng.random() < 0.25:
        k = int(rng.integers(numbers))
        gone = rng.random(n) < MISSING_SHARE
        parts[k] = np.where(gone, np.median(parts[k][~gone]), parts[k])
        parts.append(gone.astype(np.float64))
        kinds.append(Column("categorical", (0.0, 1.0)))
    for _ in range(int(rng.integers(0, 3))):
        levels = int(rng.integers(2, 9))
        share = rng.dirichlet(np.full(levels, 2.0))
        parts.append(rng.choice(levels, size=n, p=share).astype(np.float64))
        kinds.append(Column("categorical", tuple(map(float, range(levels)))))
    return np.stack(parts, axis=1), tuple(kinds)


def draw_vectors(n: int, rng: np.random.Generator) -> tuple[FloatArray, tuple[Column, ...]]:
    """Draw vectors of length 1 around some topics, as embeddings of texts are: (n, 16 to 64)."""
    width = round(float(np.exp(rng.uniform(np.log(16), np.log(64)))))
    topics = rng.standard_normal((int(rng.integers(4, 31)), width))
    vector = topics[rng.integers(len(topics), size=n)] + rng.standard_normal((n, width))
    return vector / np.linalg.norm(vector, axis=1, keepdims=True), (Column(),) * width


def draw_positions(n: int, rng: np.random.Generator) -> tuple[FloatArray, Column]:
    """Draw the place on the page of each context, equally likely from 1 to 3 or up to 8: (n,)."""
    places = int(rng.integers(3, 9))
    place = rng.integers(1, places + 1, size=n).astype(np.float64)
    return place, Column("categorical", tuple(map(float, range(1, places + 1))))
