"""Propensities as loggers write them: rounded, clipped, stale, wrong for some items, missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ope_bench import DiscretePolicy, FloatArray, Problem, UnavailableError

__all__ = ["ChangedPolicy", "Propensities", "without_policy", "written_propensities"]

Propensities = Literal[
    "items",
    "rounded",
    "clipped",
    "stale",
    "temperature",
    "constant",
    "monte-carlo",
    "draws-until",
    "missing",
]

STRENGTHS: dict[str, float] = {
    "items": 0.2,
    "rounded": 2.0,
    "clipped": 0.05,
    "stale": 0.5,
    "temperature": 2.0,
    "monte-carlo": 1024.0,
    "draws-until": 10.0,
}
"""Strength of each kind by default; those without one have none."""


class ChangedPolicy(DiscretePolicy):
    """A policy proportional to a function of another's probabilities.

    Parameters
    ----------
    policy : the other.
    change : f(table (k, n_actions)) -> (k, n_actions), not necessarily normalized; every row
        keeps some mass.
    """

    def __init__(self, policy: DiscretePolicy, change: Callable[[FloatArray], FloatArray]) -> None:
        super().__init__(policy.n_actions)
        self._policy, self._change = policy, change

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_actions)."""
        changed = self._change(self._policy.table(context))
        normalized: FloatArray = changed / changed.sum(axis=1, keepdims=True)
        return normalized


def written_propensities(
    problem: Problem,
    kind: Propensities,
    strength: float | None,
    *,
    world_rng: np.random.Generator,
    logged_rng: np.random.Generator,
) -> Problem:
    """Return the problem with what the log says instead of the propensities, without the policy.

    Parameters
    ----------
    problem, kind, world_rng, logged_rng : as of `logged_propensity`.
    strength : None for that of `STRENGTHS`.
    """
    strength = STRENGTHS.get(kind, 0.0) if strength is None else strength
    found = logged_propensity(kind, strength, problem, world_rng=world_rng, logged_rng=logged_rng)
    reasons = dict(problem.unavailable)
    if found is None:
        reasons["propensity"] = "these damaged logs hold no propensities"
    return without_policy(problem, propensity=found, unavailable=reasons)


def without_policy(problem: Problem, **changes: Any) -> Problem:
    """Return the problem without its whole logging policy, and with other changes."""
    reasons = dict(changes.pop("unavailable", problem.unavailable))
    reasons["logging_policy"] = "these damaged logs do not hold the whole logging policy"
    return replace(problem, logging_policy=None, unavailable=reasons, **changes)


def logged_propensity(
    kind: Propensities,
    strength: float,
    problem: Problem,
    *,
    world_rng: np.random.Generator,
    logged_rng: np.random.Generator,
) -> FloatArray | None:
    """Return what the log says instead of the propensities: (n,); None where they are missing.

    Parameters
    ----------
    kind, strength : of the error, as the environment `damaged` describes them.
    problem : the logs, with the true propensities of discrete actions.
    world_rng : draws errors that belong to actions.
    logged_rng : draws errors that belong to rows.

    Raises
    ------
    UnavailableError : the problem lacks what this error is made from.
    """
    if kind == "missing":
        return None
    n_actions, true = problem.n_actions, problem.propensity
    if true is None or n_actions is None:
        msg = f"propensity={kind} changes known propensities of discrete actions; there are none"
        raise UnavailableError(msg)
    wrong: FloatArray
    if kind == "constant":
        return np.full(len(true), 1.0 / n_actions)
    if kind == "items":
        off = world_rng.random(n_actions) < strength
        factor = world_rng.uniform(2.0, 5.0, n_actions) ** world_rng.choice([-1.0, 1.0], n_actions)
        wrong = true * np.where(off, factor, 1.0)[problem.action]
    elif kind == "rounded":
        step = 10.0 ** -round(strength)
        # A logger that writes 0 for an action that it played would be found out at once.
        wrong = np.maximum(np.round(true / step), 1.0) * step
    elif kind == "clipped":
        wrong = np.maximum(true, strength)
    elif kind == "draws-until":
        hits = round(strength)
        # T ~ hits + NB(hits, p); E[T / hits] = 1 / p, so that weights by hits / T have no bias.
        wrong = hits / (hits + logged_rng.negative_binomial(hits, np.minimum(true, 1.0)))
    elif kind == "monte-carlo":
        draws = round(strength)
        wrong = np.maximum(logged_rng.binomial(draws, np.minimum(true, 1.0)), 1) / draws
    else:
        policy = problem.logging_policy
        if not isinstance(policy, DiscretePolicy):
            msg = f"propensity={kind} needs the whole logging policy, which is not known"
            raise UnavailableError(msg)
        if kind == "stale":
            tilt = np.exp(strength * world_rng.standard_normal(n_actions))
            other = ChangedPolicy(policy, lambda table: table * tilt)
        else:
            other = ChangedPolicy(policy, lambda table: table ** (1.0 / strength))
        wrong = other.probability(problem.context, problem.action.astype(np.int64))
    return np.minimum(wrong, 1.0)
