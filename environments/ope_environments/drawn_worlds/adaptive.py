"""Loggers that learn: their policy changes from phase to phase, with the rewards so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench import FloatArray, IntArray, Tabular
from ope_environments.populations.population import Decisions, Noise, RewardAt

__all__ = ["AdaptiveKind", "AdaptiveLogger", "draw_schedule"]

AdaptiveKind = Literal["thompson", "decreasing"]

DRAWS = 64
"""Draws from the posterior for a phase of Thompson sampling. The policy is the share of draws in
which an action is best, not its expectation, so that probabilities are known exactly."""


def draw_schedule(kind: AdaptiveKind, rng: np.random.Generator) -> FloatArray:
    """Draw the exploration of four to twelve phases, 1 in the first: (phases,).

    That of ``decreasing`` falls geometrically to .5 to 5 %; ``thompson`` has a constant floor of
    .5 to 10 %, or, in a quarter of the worlds, none.
    """
    phases = int(rng.integers(4, 13))
    low, high = (0.005, 0.05) if kind == "decreasing" else (0.005, 0.1)
    last = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    if kind == "decreasing":
        return np.geomspace(1.0, last, phases)
    floor = 0.0 if rng.random() < 0.25 else last
    return np.array([1.0, *[floor] * (phases - 1)])


@dataclass(frozen=True, eq=False)
class AdaptiveLogger:
    """A logger that plays what paid, group by group, and explores.

    ``thompson``: batched Thompson sampling. The mean reward of an action in a group has a normal
    posterior from its rewards so far and one more of the mean of all, with the deviation of all; a
    phase plays each action with the share of draws in which it is best. ``decreasing``: the action
    with the largest posterior mean.

    Parameters
    ----------
    kind : as above.
    exploration : (phases,), share of uniform decisions in each of the phases, which have as many
        rows each.
    group : (n_rows,), the group of each row of the population, from 0.
    find : finds rows of the population by their contexts.
    n_actions : number of actions.
    reward_at, noise : rewards of the population.
    averaged : the log holds propensities averaged over phases, as if one policy had logged it, and
        shows this policy; else propensities of the time, and no policy.
    """

    kind: AdaptiveKind
    exploration: FloatArray
    group: IntArray
    find: Callable[[FloatArray], IntArray]
    n_actions: int
    reward_at: RewardAt
    noise: Noise
    averaged: bool

    def __call__(self, row: IntArray, rng: np.random.Generator) -> Decisions:
        """Log some rows of the population, in the order of time."""
        decisions, average = self._log(row, rng)
        if not self.averaged:
            return decisions
        policy = Tabular(average, lambda context: self.group[self.find(context)])
        propensity = average[self.group[row], decisions.action]
        return decisions._replace(propensity=propensity, policy=policy)

    def average(self, row: IntArray, rng: np.random.Generator) -> FloatArray:
        """Log some rows and return the policy averaged over them: (n_rows, n_actions)."""
        return self._log(row, rng)[1][self.group]

    def _log(self, row: IntArray, rng: np.random.Generator) -> tuple[Decisions, FloatArray]:
        """Return decisions with propensities of the time, and the average policy by group."""
        n, group = len(row), self.group[row]
        action, reward, propensity = np.zeros(n, dtype=np.int64), np.empty(n), np.empty(n)
        average = np.zeros((int(self.group.max()) + 1, self.n_actions))
        phases = np.array_split(np.arange(n), len(self.exploration))
        for phase, share in zip(phases, self.exploration, strict=True):
            if not len(phase):
                continue
            past = slice(0, phase[0])
            best = self._best(group[past], action[past], reward[past], rng)
            policy = (1.0 - share) * best + share / self.n_actions
            average += policy * len(phase) / n
            now = group[phase]
            drawn = Tabular(policy, lambda code: code[:, 0].astype(np.int64))
            action[phase], propensity[phase] = drawn.draw(now[:, None].astype(np.float64), rng)
            reward[phase] = self.noise(self.reward_at(row[phase], action[phase]), rng)
        return Decisions(action, propensity, reward, None), average

    def _best(
        self, group: IntArray, action: IntArray, reward: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return the policy without exploration after some rows: (groups, n_actions)."""
        shape = int(self.group.max()) + 1, self.n_actions
        spread = float(reward.std()) if len(reward) else 0.0
        if spread == 0.0:
            return np.full(shape, 1.0 / self.n_actions)
        at = group * self.n_actions + action
        count = np.bincount(at, minlength=shape[0] * shape[1]).reshape(shape)
        total = np.bincount(at, reward, minlength=shape[0] * shape[1]).reshape(shape)
        mean = (total + reward.mean()) / (count + 1.0)
        best = np.zeros(shape)
        if self.kind == "decreasing":
            best[np.arange(shape[0]), mean.argmax(axis=1)] = 1.0
            return best
        draws = mean + spread / np.sqrt(count + 1.0) * rng.standard_normal((DRAWS, *shape))
        for each in draws.argmax(axis=2):
            best[np.arange(shape[0]), each] += 1.0 / DRAWS
        return best
