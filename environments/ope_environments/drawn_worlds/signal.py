"""Rewards whose mean explains a given share of their variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ope_bench import FloatArray
from ope_environments.drawn_worlds.rewards import (
    beta,
    student,
    zero_inflated,
)
from ope_environments.drawn_worlds.world import log_uniform
from ope_environments.populations.population import Noise, bernoulli, gaussian

__all__ = ["WorldRewards", "SecondRewardKind", "draw_signal"]

SecondRewardKind = Literal[
    "binary", "gaussian", "bounded", "zero-inflated", "heavy-tailed", "deterministic"
]

CELLS = 1000
"""Quantiles of the score from which the strength of a signal is solved."""

LARGEST = 30.0
"""Largest slope of a probability in the standardized score."""


class WorldRewards(NamedTuple):
    """Rewards of a world.

    Parameters
    ----------
    mean : (n, n_actions)
    noise : draws rewards from means.
    variance : f(mean) -> their variance given the mean.
    limits : smallest and largest reward, where there are.
    """

    mean: FloatArray
    noise: Noise
    variance: Callable[[FloatArray], FloatArray]
    limits: tuple[float, float] | None


def draw_signal(
    kind: SecondRewardKind, score: FloatArray, share: float, rng: np.random.Generator
) -> WorldRewards:
    """Draw q(x, a) and its noise, such that Var q(x, a) / Var r is about the share.

    Variances are over contexts and actions, all equally likely. Where the kind of reward and its
    base rate cannot reach the share, it is the largest that they can.

    Parameters
    ----------
    kind : ``binary`` with a base rate of .1 to 50 %; ``zero-inflated``: 0, or log-normal with a
        probability of 2 to 50 %; ``bounded`` in [0, 1] (beta); ``gaussian``; ``heavy-tailed``:
        Student's t with three degrees of freedom; ``deterministic``, which has no noise: 1 in the
        10 to 50 % of the pairs with the largest score and 0 in others, or, in half of the worlds,
        a logistic function of the score.
    score : (n, n_actions), standardized.
    share : in (0, 1).
    """
    if kind == "binary":
        base = log_uniform(0.001, 0.5, rng)
        mean = _solve(score, base, share, lambda q: q * (1.0 - q), rng)
        return WorldRewards(mean, bernoulli, lambda q: q * (1.0 - q), (0.0, 1.0))
    if kind == "zero-inflated":
        base, amount = log_uniform(0.02, 0.5, rng), float(np.exp(rng.normal()))
        spread = 0.8 * (1.0 - share)
        second = float(np.exp(spread**2))
        rate = _solve(score, base, share, lambda q: q * second - q**2, rng)
        return WorldRewards(
            rate * amount,
            zero_inflated(amount, spread),
            lambda q: q * amount * second - q**2,
            None,
        )
    if kind == "bounded":
        base, concentration = log_uniform(0.1, 0.9, rng), float(rng.uniform(2.0, 20.0))

        def variance(q: FloatArray) -> FloatArray:
            return q * (1.0 - q) / (concentration + 1.0)

        return WorldRewards(
            _solve(score, base, share, variance, rng), beta(concentration), variance, (0, 1)
        )
    if kind == "deterministic":
        if rng.random() < 0.5:
            limit = np.quantile(score, 1.0 - rng.uniform(0.1, 0.5))
            return WorldRewards(
                (score > limit).astype(np.float64), bernoulli, np.zeros_like, (0, 1)
            )
        return WorldRewards(1.0 / (1.0 + np.exp(-1.5 * score)), _same, np.zeros_like, (0, 1))
    mean = float(rng.normal()) + score
    spread = float(np.sqrt((1.0 - share) / share))
    noise = gaussian(spread) if kind == "gaussian" else student(spread)
    return WorldRewards(mean, noise, lambda q: np.full_like(q, spread**2), None)


def _same(mean: FloatArray, rng: np.random.Generator) -> FloatArray:
    return mean


def _solve(
    score: FloatArray,
    base: float,
    share: float,
    variance: Callable[[FloatArray], FloatArray],
    rng: np.random.Generator,
) -> FloatArray:
    """Return logistic(intercept + slope score) of this mean, ``base``, and share of signal."""
    from scipy.optimize import brentq

    at = score.ravel()
    if at.size > CELLS:
        # Even quantiles of many cells are a finer picture of the tails than as few cells are.
        some = np.sort(at[rng.integers(at.size, size=20 * CELLS)])
        at = some[10::20]

    largest = float(np.abs(at).max())

    def intercept(slope: float) -> float:
        steep = slope * at
        end = 20.0 + slope * largest
        found: float = brentq(
            lambda middle: float(_logistic(middle + steep).mean()) - base, -end, end
        )
        return found

    def excess(log_slope: float) -> float:
        slope = float(np.exp(log_slope))
        q = _logistic(intercept(slope) + slope * at)
        return float(q.var() - share * (q.var() + variance(q).mean()))

    least, most = float(np.log(1e-3)), float(np.log(LARGEST))
    if excess(least) >= 0.0:
        slope = np.exp(least)
    elif excess(most) <= 0.0:
        slope = np.exp(most)
    else:
        slope = np.exp(brentq(excess, least, most, xtol=1e-3))
    return _logistic(intercept(float(slope)) + slope * score)


def _logistic(value: FloatArray) -> FloatArray:
    # In place: this runs a hundred times a world.
    rate = np.maximum(value, -20.0)
    np.minimum(rate, 20.0, out=rate)
    np.negative(rate, out=rate)
    np.exp(rate, out=rate)
    rate += 1.0
    return np.divide(1.0, rate, out=rate)
