"""A finite population of contexts, from which logs and target samples are drawn.

Real data as an environment: contexts are rows of a table, rewards have a known mean for every row
and action. The target policy's value is then a finite sum.

A row of the table is a unit (`Problem.unit`). Rows are drawn without replacement where the table
has as many as are asked for, and with replacement beyond; the target sample takes rows that the
logs left where enough are left. A row that is drawn twice, in either sample, is one unit: folds
keep its copies together, so that no model is judged by a copy of what it was fitted on, and
standard errors count it once. They are then those of a mean over new rows of the same kind, which
are wider than those of a mean over the table's own rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ope_bench import (
    DeterministicEmbedding,
    DiscretePolicy,
    FloatArray,
    IntArray,
    Problem,
    Schema,
    Truth,
)

__all__ = [
    "Decisions",
    "FromPopulation",
    "Logger",
    "Noise",
    "Population",
    "RewardAt",
    "RewardTable",
    "bernoulli",
    "draw_rows",
    "gaussian",
    "value_of",
]

_UNITS = 1 << 61

RewardAt = Callable[[IntArray, IntArray], FloatArray]
"""f(row (k,), action (k,)) -> (k,): mean reward of an action at a row of the population."""

RewardTable = Callable[[slice], FloatArray]
"""f(rows) -> (k, n_actions): mean reward of all actions at some rows."""

Noise = Callable[[FloatArray, np.random.Generator], FloatArray]
"""f(mean (k,), rng) -> (k,): rewards with these means."""


class Decisions(NamedTuple):
    """What a logger did at some rows, in the order of time.

    Parameters
    ----------
    action, propensity, reward : (n,)
    policy : what the log shows as the logging policy, if it shows one.
    """

    action: IntArray
    propensity: FloatArray
    reward: FloatArray
    policy: DiscretePolicy | None


Logger = Callable[[IntArray, np.random.Generator], Decisions]
"""f(row (n,), rng): logs these rows of the population, in the order of time."""


def bernoulli(mean: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw rewards 0 or 1, which are 1 with probability ``mean``: (k,)."""
    return (rng.random(len(mean)) < mean).astype(np.float64)


def gaussian(std: float) -> Noise:
    """Draw rewards with normal noise of this standard deviation."""

    def draw(mean: FloatArray, rng: np.random.Generator) -> FloatArray:
        return mean + std * rng.standard_normal(len(mean))

    return draw


def value_of(
    policy: DiscretePolicy,
    context: FloatArray,
    reward: RewardTable,
    share: FloatArray | None = None,
) -> float:
    """Return the policy's value: sum over rows and actions of share(x) pi(a|x) q(x, a), exactly.

    Parameters
    ----------
    policy : whose value.
    context : (n_rows, d_context), the population.
    reward : its mean rewards, asked for in chunks of rows.
    share : (n_rows,), probability of each row; equal where None.
    """
    values = np.empty(len(context))
    for rows, block in policy.blocks(context):
        values[rows] = np.einsum("ka,ka->k", block, reward(rows))
    return float(values.mean() if share is None else share @ values)


@dataclass(frozen=True, eq=False)
class Population:
    """Fixed part of an environment, from which `sample` draws.

    Rows with a probability of their own (``share``) are kinds of contexts rather than individuals:
    they are drawn with replacement, and every draw is a unit.

    Parameters
    ----------
    context : (n_rows, d_context)
    schema : kinds of context and embedding columns
    logging, target : the policies
    embedding : of the actions
    reward_at : mean reward of a row and an action
    noise : rewards from their means
    expected : the target policy's value
    share : (n_rows,), probability of each row; equal where None
    logger : logs in place of a draw from ``logging``, where the policy changes with time
    rows_per_unit : mean number of rows that a drawn row of the population has in the logs; above 1
        their numbers are geometric, and the rows are one unit. For rows with a ``share`` alone.
    """

    context: FloatArray
    schema: Schema
    logging: DiscretePolicy
    target: DiscretePolicy
    embedding: DeterministicEmbedding
    reward_at: RewardAt
    noise: Noise
    expected: float
    share: FloatArray | None = None
    logger: Logger | None = None
    rows_per_unit: float = 1.0

    def sample(
        self,
        n: int | None,
        *,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
        shared_contexts: bool,
    ) -> tuple[Problem, Truth]:
        """Draw logs of ``n`` rows and a target sample of ``n`` rows; return them with the truth.

        Parameters
        ----------
        n : rows of either sample; None for as many as the population has.
        """
        n = len(self.context) if n is None else n
        embedding = self.embedding.action_embedding
        row, unit = self._logged_rows(n, logged_rng)
        context = self.context[row]
        logged = self._decide if self.logger is None else self.logger
        action, propensity, reward, logging_policy = logged(row, logged_rng)

        target_row = row if shared_contexts else self._target_rows(row, target_rng)
        target_context = context if shared_contexts else self.context[target_row]
        target_action = self.target.sample(target_context, target_rng)
        target_reward = self.noise(self.reward_at(target_row, target_action), target_rng)
        problem = Problem(
            context=context,
            action=action,
            embedding=embedding[action],
            reward=reward,
            target_context=target_context,
            target_action=target_action,
            target_embedding=embedding[target_action],
            n_actions=len(embedding),
            schema=self.schema,
            propensity=propensity,
            logging_policy=logging_policy,
            target_policy=self.target,
            action_embedding=embedding,
            embedding_distribution=self.embedding,
            shared_contexts=shared_contexts,
            reward_range=(0.0, 1.0) if self.noise is bernoulli else None,
            unit=unit,
            target_unit=target_row if self.share is None else None,
        )
        return problem, Truth(self.expected, 0.0, float(target_reward.mean()))

    def _decide(self, row: IntArray, rng: np.random.Generator) -> Decisions:
        action, propensity = self.logging.draw(self.context[row], rng)
        reward = self.noise(self.reward_at(row, action), rng)
        return Decisions(action, propensity, reward, self.logging)

    def _logged_rows(self, n: int, rng: np.random.Generator) -> tuple[IntArray, IntArray | None]:
        """Return the rows of a log and their units: (n,), (n,) or None."""
        if self.share is None or self.rows_per_unit <= 1.0:
            row = self._rows(n, rng)
            return row, row if self.share is None else None
        # n units have enough rows, whatever their numbers of rows.
        drawn = np.repeat(np.arange(n), rng.geometric(1.0 / self.rows_per_unit, n))[:n]
        # Numbers that hardly coincide, so that logs of one world can be put together.
        name = rng.integers(_UNITS, size=n)
        order = rng.permutation(drawn)
        return self._rows(n, rng)[order], name[order]

    def _rows(self, n: int, rng: np.random.Generator) -> IntArray:
        if self.share is None:
            return draw_rows(np.arange(len(self.context)), n, rng)
        cumulative = np.cumsum(self.share)
        drawn = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
        rows: IntArray = np.minimum(drawn, len(self.share) - 1)
        return rows

    def _target_rows(self, logged: IntArray, rng: np.random.Generator) -> IntArray:
        """Return as many rows as were logged, others than those where enough are left."""
        if self.share is not None:
            return self._rows(len(logged), rng)
        left = np.setdiff1d(np.arange(len(self.context)), logged)
        if len(left) < len(logged):
            return self._rows(len(logged), rng)
        return draw_rows(left, len(logged), rng)


def draw_rows(rows: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """Return ``n`` of the rows, without replacement where there are as many: (n,).

    >>> sorted(draw_rows(np.array([3, 5, 8]), 3, np.random.default_rng(0)).tolist())
    [3, 5, 8]
    """
    if n <= len(rows):
        return rng.permutation(rows)[:n]
    return rows[rng.integers(len(rows), size=n)]


class FromPopulation(ABC):
    """Mixin before an environment that is a population."""

    n_samples: int | None
    shared_contexts: bool

    @abstractmethod
    def population(self, world_rng: np.random.Generator) -> Population:
        """Return the population, which is kept in memory; most are data and draw nothing."""

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        return self.population(world_rng).sample(
            self.n_samples,
            logged_rng=logged_rng,
            target_rng=target_rng,
            shared_contexts=self.shared_contexts,
        )
