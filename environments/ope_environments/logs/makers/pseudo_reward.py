"""The maker ``pseudo-reward``: logged choices as they are, rewards of a known mean."""

from __future__ import annotations

import numpy as np

from ope_bench import Problem, Truth, problem_rows
from ope_environments.logs.makers.rewards import Rewards
from ope_environments.logs.makers.source import Source
from ope_environments.logs.reward_names import RewardName

__all__ = ["PseudoReward"]


class PseudoReward:
    """Rows of the log, by units with replacement, with new rewards.

    Contexts, actions and propensities stay together, so no model of the logging policy is needed,
    and whatever is wrong with the propensities is wrong here too. Each row has the reward
    q(x, a) plus noise. The truth is the mean over the log's rows of sum_a pi1(a|x) q(x, a).

    Parameters
    ----------
    source : the log.
    reward_model : model of q.
    ridge : its penalty.
    """

    def __init__(self, source: Source, reward_model: RewardName, ridge: float) -> None:
        self.source = source
        self.rewards = Rewards(source, reward_model, ridge)

    def sample(
        self,
        n: int | None,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample about ``n`` rows, all units' worth where None, and the truth."""
        model, value = self.rewards.model(world_rng)
        problem = self.source.problem
        rows, target = self.source.draw(n, logged_rng)
        action = np.asarray(problem.action[rows], dtype=np.int64)
        reward = self.rewards.draw(model, np.asarray(problem.context[rows]), action, logged_rng)
        made = problem_rows(
            problem,
            rows,
            target,
            reward=reward,
            reward_range=self.rewards.range,
            **self.source.target_sample(target, target_rng),
        )
        return made, self.rewards.truth(model, made, value, target_rng)
