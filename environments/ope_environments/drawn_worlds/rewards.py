"""Rewards of a drawn world: their mean given context and action, and their noise."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ope_bench import FloatArray
from ope_environments.populations.population import Noise, bernoulli, gaussian

__all__ = ["DEGREES", "RewardKind", "beta", "draw_rewards", "student", "zero_inflated"]

RewardKind = Literal["binary", "gaussian", "bounded", "zero-inflated", "heavy-tailed"]

DEGREES = 3.0
"""Degrees of freedom of heavy tails: the variance exists, the fourth moment does not."""


def draw_rewards(
    kind: RewardKind, score: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, Noise]:
    """Draw q(x, a) of the population, and the noise around it: (n, n_actions).

    Parameters
    ----------
    kind : ``binary`` with a base rate of .5 to 50 %; ``gaussian``; ``bounded`` in [0, 1] (beta);
        ``zero-inflated``: 0, or log-normal with a probability of 2 to 50 %; ``heavy-tailed``:
        Student's t with three degrees of freedom.
    score : (n, n_actions), standardized.
    """
    signal = float(np.exp(rng.uniform(np.log(0.1), np.log(2.0))))
    if kind == "binary":
        return _rates(0.005, 0.5, signal * score, rng), bernoulli
    if kind == "zero-inflated":
        rate = _rates(0.02, 0.5, signal * score, rng)
        amount = float(np.exp(rng.normal(0.0, 1.0)))
        return rate * amount, zero_inflated(amount, 0.8)
    if kind == "bounded":
        return _rates(0.1, 0.9, signal * score, rng), beta(float(rng.uniform(2.0, 20.0)))
    offset = float(rng.normal(0.0, 1.0))
    # Signal to noise: the deviation of the mean over that of the noise.
    mean = offset + score
    noise = 1.0 / float(np.exp(rng.uniform(np.log(0.05), np.log(1.0))))
    return mean, gaussian(noise) if kind == "gaussian" else student(noise)


def _rates(low: float, high: float, score: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return probabilities whose mean over contexts and actions is log-uniform in [low, high]."""
    base = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    intercept = 0.0
    # Newton's method on the mean of a logistic function, which is increasing in the intercept.
    for _ in range(60):
        rate = 1.0 / (1.0 + np.exp(-np.clip(intercept + score, -40.0, 40.0)))
        slope = float((rate * (1.0 - rate)).mean())
        step = (base - float(rate.mean())) / max(slope, 1e-6)
        intercept += float(np.clip(step, -1.0, 1.0))
        if abs(step) < 1e-12:
            break
    found: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(intercept + score, -40.0, 40.0)))
    return found


def zero_inflated(amount: float, spread: float) -> Noise:
    """Draw 0, or a log-normal amount with this mean and deviation of the logarithm."""

    def draw(mean: FloatArray, rng: np.random.Generator) -> FloatArray:
        positive = rng.random(len(mean)) < mean / amount
        # E exp(spread z - spread^2/2) is 1.
        size = amount * np.exp(spread * rng.standard_normal(len(mean)) - 0.5 * spread**2)
        return np.where(positive, size, 0.0)

    return draw


def beta(concentration: float) -> Noise:
    """Draw rewards in [0, 1] from a beta distribution; the variance is q(1 - q)/(c + 1)."""

    def draw(mean: FloatArray, rng: np.random.Generator) -> FloatArray:
        inside = np.clip(mean, 1e-9, 1.0 - 1e-9)
        return rng.beta(concentration * inside, concentration * (1.0 - inside))

    return draw


def student(std: float) -> Noise:
    """Draw rewards with heavy-tailed noise of this standard deviation."""
    scale = std / np.sqrt(DEGREES / (DEGREES - 2.0))

    def draw(mean: FloatArray, rng: np.random.Generator) -> FloatArray:
        noise: FloatArray = mean + scale * rng.standard_t(DEGREES, len(mean))
        return noise

    return draw
