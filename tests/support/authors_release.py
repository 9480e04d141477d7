"""Empirical likelihood intervals beside those of the authors' release, ``vw-estimators``."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from ope_bench import empirical_likelihood_interval

__all__ = ["MODULE", "largest_difference"]

MODULE = "estimators.bandits.cressieread"
"""The module of the package ``vw-estimators`` with the interval by the same divergence."""


def largest_difference(release: ModuleType, logs: int) -> float:
    """Largest distance of corresponding ends over random logs of 5 to 200 rows.

    Half of the logs have an unknown largest weight.
    """
    worst = 0.0
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 200))
        propensity = rng.uniform(0.02, 1.0, n)
        chosen = np.minimum(1.0, propensity * rng.exponential(size=n))
        reward = rng.random(n)
        limits = (0.0, math.inf) if seed % 2 else (0.0, 50.0)
        theirs = release.Interval(*limits, 0, 1)
        for p, r, q in zip(propensity, reward, chosen, strict=True):
            theirs.add_example(p, r, q)
        ours = empirical_likelihood_interval(
            chosen / propensity, reward, reward_range=(0, 1), weight_range=limits
        )
        low, high = theirs.get()
        worst = max(worst, abs(ours.low - low), abs(ours.high - high))
    return worst
