"""Ten arms of which the best is rare in the logs: the three overlaps of published intervals.

The target policy plays the best arm with probability 1/2, the logging policy with 1/10 (mild
overlap), 1/100 (heavy) or 1/1000 (rare); the other arms have equal shares of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench import FloatArray, Problem, Tabular
from support.tiny_worlds import code

MEAN = np.linspace(0.05, 0.60, 10)
"""Probability of a reward of 1, by arm."""

OVERLAPS = {"mild": 0.1, "heavy": 0.01, "rare": 0.001}
"""The logging policy's probability of the best arm."""


def policy(best: float) -> FloatArray:
    """Probabilities with this one for the best arm: (10,)."""
    probability = np.full(10, (1 - best) / 9)
    probability[9] = best
    return probability


@dataclass(frozen=True)
class RareArm:
    """Logs of one overlap."""

    overlap: str

    @property
    def ratio(self) -> FloatArray:
        """Importance weight of each arm."""
        return policy(0.5) / policy(OVERLAPS[self.overlap])

    @property
    def value(self) -> float:
        """The target policy's value."""
        return float(policy(0.5) @ MEAN)

    @property
    def weight_range(self) -> tuple[float, float]:
        """Smallest and largest importance weight."""
        return float(self.ratio.min()), float(self.ratio.max())

    def logs(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw importance weights and rewards: (n,), (n,)."""
        arm = rng.choice(10, size=n, p=policy(OVERLAPS[self.overlap]))
        return self.ratio[arm], (rng.random(n) < MEAN[arm]).astype(np.float64)

    def problem(self, n: int, rng: np.random.Generator) -> Problem:
        """Draw logs as a problem without a target sample."""
        logging = policy(OVERLAPS[self.overlap])
        arm = rng.choice(10, size=n, p=logging)
        return Problem(
            context=np.zeros((n, 1)),
            action=arm,
            embedding=arm[:, None].astype(float),
            reward=(rng.random(n) < MEAN[arm]).astype(np.float64),
            target_context=None,
            target_action=None,
            target_embedding=None,
            n_actions=10,
            propensity=logging[arm],
            logging_policy=Tabular(logging[None], code),
            target_policy=Tabular(policy(0.5)[None], code),
            reward_range=(0.0, 1.0),
        )
