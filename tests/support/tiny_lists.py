"""Lists of two items among three, small enough to enumerate: one user, all lists as rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache, View
from ope_environments.ranking.list_policies import IndependentSlots, PlackettLuce, ScoredLists

KINDS: dict[str, type[ScoredLists]] = {
    "plackett-luce": PlackettLuce,
    "independent-slots": IndependentSlots,
}


@dataclass(frozen=True)
class Scores:
    """The same scores in every context."""

    scores: tuple[float, ...]

    def __call__(self, context: np.ndarray) -> np.ndarray:
        return np.tile(np.array(self.scores), (len(context), 1))


def policy(rates: list[float], length: int, kind: str = "plackett-luce") -> Any:
    """A policy with these rates."""
    return KINDS[kind](Scores(tuple(np.log(rates))), len(rates), length, 1.0)


def every_list(n_actions: int, length: int, kind: str = "plackett-luce") -> np.ndarray:
    """All lists that a kind of policy can show: (m, length)."""
    if kind == "plackett-luce":
        return np.array(list(itertools.permutations(range(n_actions), length)))
    return np.array(list(itertools.product(range(n_actions), repeat=length)))


def chances(policy: Any, lists: np.ndarray) -> np.ndarray:
    """Probability of each prefix of each list: (m, length)."""
    return np.cumprod(policy.list_conditionals(np.zeros((len(lists), 1)), lists), axis=1)


def problem(logging: Any, target: Any, lists: np.ndarray, reward: np.ndarray) -> Problem:
    """The rows of lists with their rewards, (m, length) each."""
    length = lists.shape[1]
    unit, slot = np.divmod(np.arange(lists.size), length)
    context = np.column_stack([np.zeros(lists.size), slot.astype(float)])
    action = lists.reshape(-1)
    both = logging, target
    prefix = np.stack([chances(one, lists) for one in both], axis=2)
    one_hot = np.eye(logging.n_actions)
    return Problem(
        context=context,
        action=action,
        embedding=one_hot[action],
        reward=reward.reshape(-1),
        target_context=None,
        target_action=None,
        target_embedding=None,
        n_actions=logging.n_actions,
        propensity=logging.probability(context, action),
        logging_policy=logging,
        target_policy=target,
        action_embedding=one_hot,
        unit=unit,
        slot=slot,
        prefix_propensity=prefix.reshape(-1, 2),
        joint_propensity=np.repeat(prefix[:, -1], length, axis=0),
        position_marginals=np.stack([one.at_every_slot(context, action) for one in both], axis=2),
    )


def run(estimator: Estimator, data: Problem) -> Estimate:
    """What the estimator says."""
    seed = DataSeed("lists", 0, 0)
    access, optional = estimator.access, estimator.optional_access
    view = View(data, access, optional=optional, seed=seed, fit_cache=FitCache())
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    return estimator.estimate(view)
