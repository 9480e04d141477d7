"""A drawn world: its population, what its logs show, and its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_bench import Column, Diagnostic, FloatArray, Problem, Truth
from ope_environments.drawn_worlds.scores import standardized
from ope_environments.populations.population import Population

__all__ = ["DrawnWorld", "action_columns", "log_uniform", "mix_scores", "overlap_facts"]


@dataclass(frozen=True, eq=False)
class DrawnWorld:
    """A drawn world.

    Parameters
    ----------
    population : contexts, policies, rewards and the value.
    n_samples : rows of a log.
    facts : what was drawn, and how much the policies overlap.
    reward_range : smallest and largest reward, where the kind of reward has them.
    """

    population: Population
    n_samples: int
    facts: Mapping[str, Diagnostic]
    reward_range: tuple[float, float] | None = None

    def sample(
        self, logged_rng: np.random.Generator, target_rng: np.random.Generator
    ) -> tuple[Problem, Truth]:
        """Draw a log and a target sample; return what the world's logs show, with the truth."""
        problem, truth = self.population.sample(
            self.n_samples,
            logged_rng=logged_rng,
            target_rng=target_rng,
            shared_contexts=False,
        )
        fields: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        if self.facts["world_known"] != "policy":
            fields["logging_policy"] = None
            reasons["logging_policy"] = "this world's logs do not hold the whole logging policy"
        if self.facts["world_known"] == "samples":
            fields["propensity"] = None
            reasons["propensity"] = "this world's logs hold no propensities"
        if self.facts["world_target_form"] == "sample":
            fields["target_policy"] = None
            reasons["target_policy"] = "this world's target policy is known by a sample alone"
        if self.reward_range is not None:
            fields["reward_range"] = self.reward_range
        return replace(problem, **fields, unavailable=reasons), truth


def action_columns(items: FloatArray, absent: bool) -> tuple[FloatArray, tuple[Column, ...]]:
    """Return the embedding that logs show, and its columns: items, or numbers of actions."""
    if not absent:
        return items, (Column("atoms"),) * items.shape[1]
    number = np.arange(float(len(items)))
    return number[:, None], (Column("categorical", tuple(number.tolist())),)


def overlap_facts(logging: FloatArray, target: FloatArray, rows: int) -> dict[str, Diagnostic]:
    """Return how much two policies overlap, from their tables: (n, n_actions)."""
    played = logging > 0
    ratio = np.divide(target, logging, out=np.zeros_like(target), where=played)
    return {
        # Of infinitely many rows: (E w)^2 / E w^2 under the logging policy.
        "world_ess_fraction": float(
            (target * played).sum(axis=1).mean() ** 2 / (logging * ratio**2).sum(axis=1).mean()
        ),
        "world_rows_over_weight": float(rows / ratio.max()),
    }


def log_uniform(low: float, high: float, rng: np.random.Generator) -> float:
    """Draw a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def mix_scores(reward: FloatArray, own: FloatArray, correlation: float) -> FloatArray:
    """Return a score with this correlation with the reward's, if the reward has one."""
    mixed = np.sqrt(1.0 - correlation**2) * own
    mixed += correlation * reward
    return standardized(mixed)
