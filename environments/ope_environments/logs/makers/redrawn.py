"""The maker ``redrawn``: logged contexts, with actions and rewards drawn from models."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench import (
    DiscretePolicy,
    FloatArray,
    IntArray,
    Problem,
    Truth,
    UnavailableError,
    problem_rows,
)
from ope_environments.logs.makers.rewards import Rewards
from ope_environments.logs.makers.source import Source
from ope_environments.logs.reward_names import RewardName

__all__ = ["Redrawn"]

MOST_FITTED = 500
"""Most actions of a fitted logging policy that depends on the context."""


class Redrawn:
    """Contexts of the log, by units with replacement; actions and rewards anew.

    Actions come from the logging policy where the log gives all of it, else from a fitted one,
    whose sharpness matches the logged propensities. Estimators see of it what they see on the log.
    Where an action has no embedding of its own, it gets that of a logged row with this action.
    The truth is that of `PseudoReward`.

    Parameters
    ----------
    source : the log.
    reward_model : model of q.
    ridge : its penalty.
    by_context : whether the fitted logging policy depends on the context.
    """

    def __init__(
        self, source: Source, reward_model: RewardName, ridge: float, by_context: bool
    ) -> None:
        self.source = source
        problem = source.problem
        self.rewards = Rewards(source, reward_model, ridge)
        if isinstance(problem.logging_policy, DiscretePolicy):
            self.logging = problem.logging_policy
            return
        if by_context and source.n_actions > MOST_FITTED:
            msg = (
                f"maker=redrawn fits a logging policy over at most {MOST_FITTED} actions, not "
                f"{source.n_actions:,}; give `logging: {{table: FILE}}`, or logging_model=shares"
            )
            raise UnavailableError(msg)
        self.logging = source.logging_by_context if by_context else source.logging_by_share

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
        context = problem.context[rows]
        action, propensity = self.logging.draw(context, logged_rng)
        reward = self.rewards.draw(model, np.asarray(context), action, logged_rng)
        changes: dict[str, Any] = {
            "action": action,
            "reward": reward,
            "embedding": self._described(action, logged_rng),
            "reward_range": self.rewards.range,
        }
        if problem.propensity is not None:
            changes["propensity"] = propensity
        changes |= self.source.target_sample(target, target_rng)
        made = problem_rows(problem, rows, target, **changes)
        return made, self.rewards.truth(model, made, value, target_rng)

    def _described(self, action: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return the action's embedding, or where it varies that of a logged row: (n, d)."""
        problem = self.source.problem
        found: FloatArray
        if problem.action_embedding is not None:
            found = problem.action_embedding[action]
            return found
        order = np.argsort(problem.action, kind="stable")
        first, end = np.searchsorted(problem.action[order], [action, action + 1])
        place = first + (rng.random(len(action)) * (end - first)).astype(np.int64)
        # An action that was never logged gets the embedding of another one.
        rows = order[np.minimum(place, len(order) - 1)]
        found = problem.embedding[rows]
        return found
