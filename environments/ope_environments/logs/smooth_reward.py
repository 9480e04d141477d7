"""A random smooth function of context and action as a reward model."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_environments.logs.decisions import LoggedDecisions
from ope_environments.populations.design import Design

__all__ = ["SmoothReward", "draw_smooth"]

WAVES = 32
"""Cosines that are added."""

LEAST_SHARE = 0.1
"""Least share of the logged rewards' variance that the function has."""


class SmoothReward:
    """A sum of waves, clipped to the range of the logged rewards.

        q(x, a) = mean + scale sum_j cos(way_j . design(x) + phase_ja)

    Parameters
    ----------
    design : of the context.
    way : (width, waves), frequencies.
    phase : (n_actions, waves); like actions have like phases where embeddings describe them.
    mean, scale : of the values at the logged rows.
    low, high : the range.
    """

    def __init__(
        self,
        design: Design,
        way: FloatArray,
        phase: FloatArray,
        mean: float,
        scale: float,
        low: float,
        high: float,
    ) -> None:
        self.design, self.way, self.phase = design, way, phase
        self.mean, self.scale, self.low, self.high = mean, scale, low, high

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the expected reward of every action: (k, n_actions)."""
        waves = self.design(context) @ self.way
        # cos(u + v) = cos u cos v - sin u sin v: no table of rows times actions times waves.
        table = np.cos(waves) @ np.cos(self.phase).T - np.sin(waves) @ np.sin(self.phase).T
        return self._scaled(table)

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the expected reward of each row's action: (k,)."""
        return self._scaled(
            np.cos(self.design(context) @ self.way + self.phase[action]).sum(axis=1)
        )

    def _scaled(self, values: FloatArray) -> FloatArray:
        kept: FloatArray = np.clip(self.mean + self.scale * values, self.low, self.high)
        return kept


def draw_smooth(
    data: LoggedDecisions, design: Design, spread: float, rng: np.random.Generator
) -> SmoothReward:
    """Draw a function with the mean of the logged rewards and about this standard deviation.

    Parameters
    ----------
    data : the logged rows.
    design : of the context.
    spread : wanted standard deviation over the logged rows; at least a share of the rewards' own.
    rng : draws frequencies and phases.
    """
    embedding = data.embedding
    if not embedding.shape[1]:
        embedding = rng.normal(size=(len(data.actions), 2))
    scaled = (embedding - embedding.mean(axis=0)) / np.maximum(embedding.std(axis=0), 1e-12)
    way = rng.normal(size=(design.width, WAVES)) / np.sqrt(design.width)
    phase = scaled @ rng.normal(size=(scaled.shape[1], WAVES)) / np.sqrt(scaled.shape[1])
    phase = phase + rng.uniform(0, 2 * np.pi, size=WAVES)
    low, high = float(data.reward.min()), float(data.reward.max())
    plain = SmoothReward(design, way, phase, 0.0, 1.0, -np.inf, np.inf)
    values = plain.at(data.context, data.action)
    wanted = max(spread, np.sqrt(LEAST_SHARE) * float(data.reward.std()))
    scale = wanted / max(float(values.std()), 1e-12)
    mean = float(data.reward.mean() - scale * values.mean())
    return SmoothReward(design, way, phase, mean, scale, low, high)
