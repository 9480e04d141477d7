"""Scores of actions in a drawn world: how rewards and policies depend on context and action."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ope_bench import FloatArray

__all__ = ["Structure", "draw_embedding", "draw_score", "standardized"]

Structure = Literal["linear", "interactions", "steps", "items", "none", "network"]
"""How a score depends on the context, action by action."""

OF_ITEMS = 0.9
"""Share of a score's coefficients that useful embeddings determine, as a correlation."""


def draw_embedding(n_actions: int, rng: np.random.Generator) -> FloatArray:
    """Draw numbers that describe each action: (n_actions, d_embedding)."""
    return rng.standard_normal((n_actions, int(rng.integers(2, 7))))


def draw_score(
    structure: Structure,
    design: FloatArray,
    n_actions: int,
    items: FloatArray | None,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw s(x, a) for every context of the population and every action: (n, n_actions).

    Parameters
    ----------
    structure : ``linear``: ``b_a + theta_a . z``; ``interactions``: with products of two columns;
        ``steps``: with indicators ``z > t``; ``items``: ``b_a`` alone; ``none``: 0;
        ``network``: two layers of random tanh units over all columns in place of z.
    design : (n, width), standardized columns z of the population.
    items : (n_actions, d_embedding), what determines the coefficients; nothing where None.
    """
    if structure == "none":
        return np.zeros((len(design), n_actions))
    if structure == "items":
        features = np.zeros((len(design), 0))
    elif structure == "interactions":
        first, second = rng.integers(design.shape[1], size=(2, design.shape[1]))
        features = np.concatenate([design, design[:, first] * design[:, second]], axis=1)
    elif structure == "steps":
        columns = rng.integers(design.shape[1], size=2 * design.shape[1])
        features = (design[:, columns] > rng.normal(0.0, 0.7, len(columns))).astype(np.float64)
    elif structure == "network":
        features = _network(design, rng)
    else:
        features = design
    width = 1 + features.shape[1]
    own = rng.standard_normal((n_actions, width))
    if items is not None:
        shared = items @ rng.standard_normal((items.shape[1], width)) / np.sqrt(items.shape[1])
        own = OF_ITEMS * shared + np.sqrt(1.0 - OF_ITEMS**2) * own
    own[:, 1:] *= rng.uniform(0.3, 1.5) / np.sqrt(max(1, width - 1))
    score = features @ own[:, 1:].T
    score += own[:, 0]
    return score


def _network(design: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the last layer of a smooth random network, standardized: (n, 16 to 64)."""
    layer = design
    for width in rng.integers(16, 65, size=2):
        weight = rng.standard_normal((layer.shape[1], width)) * 1.5 / np.sqrt(layer.shape[1])
        layer = np.tanh(layer @ weight + 0.5 * rng.standard_normal(width))
        layer = layer - layer.mean(axis=0)
        layer = layer / np.maximum(layer.std(axis=0), 1e-9)
    return layer


def standardized(score: FloatArray) -> FloatArray:
    """Return a score with mean 0 and deviation 1 over contexts and actions; 0 where constant."""
    centered: FloatArray = score - score.mean()
    spread = float(np.sqrt(np.square(centered).mean()))
    if spread > 0:
        centered /= spread
    return centered
