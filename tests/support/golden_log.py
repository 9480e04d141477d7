"""Six logged rows on which the value of every estimator is known, with a reward model given.

Two contexts, three actions; π0(.|0) = (.5, .3, .2), π0(.|1) = (.2, .2, .6),
π1(.|0) = (.1, .1, .8), π1(.|1) = (.7, .2, .1); q̂(0, .) = (.2, .4, .6), q̂(1, .) = (.5, .3, .1),
given and not fitted. Rows (x, a, r): (0, 0, 0), (0, 1, 1), (0, 2, 1), (1, 0, 1), (1, 2, 0),
(1, 2, 1). Clusters, which are the deterministic embedding, too: {0, 1} and {2}.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Column, Problem, Schema
from ope_bench.contracts.embeddings import DeterministicEmbedding
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.policies import Tabular
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import CachedFit, FitCache, View
from ope_estimators.nuisance.reward import FittedReward
from support.tiny_worlds import code

LOGGING = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
TARGET = np.array([[0.1, 0.1, 0.8], [0.7, 0.2, 0.1]])
REWARD_MODEL = np.array([[0.2, 0.4, 0.6], [0.5, 0.3, 0.1]])
CLUSTER = np.array([0, 0, 1])
CONTEXT = np.array([0, 0, 0, 1, 1, 1])
ACTION = np.array([0, 1, 2, 0, 2, 2])
REWARD = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 1.0])


def problem(
    context: IntArray = CONTEXT, action: IntArray = ACTION, reward: FloatArray = REWARD
) -> Problem:
    """The log, or another one under the same policies.

    The target sample has each action once in either context; no weight uses it.
    """
    embedding = CLUSTER[:, None].astype(float)
    everything = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    return Problem(
        context=context[:, None].astype(float),
        action=action,
        embedding=embedding[action],
        reward=reward,
        target_context=everything[0][:, None].astype(float),
        target_action=everything[1],
        target_embedding=embedding[everything[1]],
        n_actions=3,
        schema=Schema((Column("categorical", (0.0, 1.0)),), (Column("atoms"),)),
        propensity=LOGGING[context, action],
        logging_policy=Tabular(LOGGING, code),
        target_policy=Tabular(TARGET, code),
        action_embedding=embedding,
        embedding_distribution=DeterministicEmbedding(embedding),
    )


class TableModel:
    """Predicts what a table says of (context, action)."""

    def predict(self, features: np.ndarray) -> np.ndarray:
        context, action = features.astype(int).T
        return REWARD_MODEL[context, action]


def given_reward(rows: int) -> FittedReward:
    """q̂ of a log, with the methods that a fitted reward model has."""
    folds: Any = np.zeros(rows, dtype=int), np.full(6, -1)
    pairs: Any = lambda context, action: np.column_stack([context[:, 0], action])  # noqa: E731
    return FittedReward((TableModel(),), folds, pairs, 2)


class GivenFits(FitCache):
    """Finds a reward model of actions ready-made; makes everything else."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def get(self, key: str, make: Any) -> CachedFit:
        actions = ".RewardModel(" in key and "on='action'" in key
        if actions or ".PooledRewardModel(" in key:
            self.put(key, CachedFit(given_reward(self.rows), 0.0, 0.0))
        return super().get(key, make)


def run(estimator: Estimator, log: Problem | None = None) -> Estimate:
    """What the estimator says of the log, or of another one."""
    log = problem() if log is None else log
    seed, fits = DataSeed("golden", 0, 0), GivenFits(len(log.reward))
    view = View(log, estimator.access, seed=seed, fit_cache=fits)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    estimate = estimator.estimate(view)
    assert not view.violations
    return estimate
