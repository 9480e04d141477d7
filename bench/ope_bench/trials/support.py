"""Support of the target policy by the logs: facts of a problem that boards show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import row_chunks
from ope_bench.contracts.data import Problem
from ope_bench.contracts.policies import DiscretePolicy

__all__ = ["Support", "support_of"]

MOST_ENTRIES = 20_000_000
"""Most probabilities evaluated for the unsupported mass; it is estimated from the first rows."""


@dataclass(frozen=True)
class Support:
    """Support of one problem.

    Parameters
    ----------
    unsupported_mass : E over contexts of the target mass on actions with logging probability 0;
        with continuous actions, the share of the target sample where the logging density is 0.
    observed_unsupported_mass : share of the target sample's actions that were never logged.
    n_logged_actions, n_target_actions : distinct actions in each sample (d0, d1).

    The last three are None for continuous actions, where no action occurs twice;
    those of the target sample are None where there is none.
    """

    unsupported_mass: float | None = None
    observed_unsupported_mass: float | None = None
    n_logged_actions: int | None = None
    n_target_actions: int | None = None


def support_of(problem: Problem) -> Support:
    """Compute the support of a problem."""
    if problem.n_actions is None:
        return Support(_unsupported_share(problem))
    if problem.target_action is None:
        return Support(_unsupported_mass(problem), None, int(np.unique(problem.action).size))
    logged, target = np.unique(problem.action), np.unique(problem.target_action)
    never = ~np.isin(problem.target_action, logged)
    return Support(
        _unsupported_mass(problem), float(never.mean()), int(logged.size), int(target.size)
    )


def _unsupported_share(problem: Problem) -> float | None:
    """Return the unsupported share of a target sample of continuous actions, None if unknown.

    A target policy whose attribute ``has_density`` is False chooses single points, which have mass
    zero under any density.
    """
    logging, target = problem.logging_policy, problem.target_policy
    if logging is None or target is None or not problem.has_target_sample:
        return None
    if not getattr(target, "has_density", True):
        return 1.0
    context, action, _ = problem.target_sample
    density = logging.probability(context, action)
    return float((density == 0).mean())


def _unsupported_mass(problem: Problem) -> float | None:
    logging, target = problem.logging_policy, problem.target_policy
    if not isinstance(logging, DiscretePolicy) or not isinstance(target, DiscretePolicy):
        return None
    if logging.full_support:
        return 0.0
    rows = max(1, MOST_ENTRIES // logging.n_actions)
    context = problem.context if problem.target_context is None else problem.target_context
    context = context[:rows]
    mass = 0.0
    for chunk in row_chunks(len(context), logging.n_actions):
        missing = logging.table(context[chunk]) == 0.0
        mass += float(target.table(context[chunk])[missing].sum())
    return mass / len(context)
