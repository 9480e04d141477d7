"""How far the logs support the target policy: facts of a problem that boards show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench.arrays import row_chunks
from ope_bench.data import Problem
from ope_bench.policies import DiscretePolicy

__all__ = ["Support", "support_of"]

MOST_ENTRIES = 20_000_000
"""Most probabilities looked at for the unsupported mass; the first rows stand for the rest."""


@dataclass(frozen=True)
class Support:
    """Support of one problem.

    Parameters
    ----------
    unsupported_mass : E over contexts of the target mass on actions with logging probability 0;
        with continuous actions, the share of the target sample where the logging density is 0.
    observed_unsupported_mass : share of the target sample's actions that were never logged.
    n_logged_actions, n_target_actions : different actions in either sample (d0, d1).

    The last three are None for continuous actions, where every action is another one.
    """

    unsupported_mass: float | None = None
    observed_unsupported_mass: float | None = None
    n_logged_actions: int | None = None
    n_target_actions: int | None = None


def support_of(problem: Problem) -> Support:
    """The support of a problem."""
    if problem.n_actions is None:
        return Support(_unsupported_share(problem))
    logged, wanted = np.unique(problem.action), np.unique(problem.target_action)
    never = ~np.isin(problem.target_action, logged)
    return Support(
        _unsupported_mass(problem), float(never.mean()), int(logged.size), int(wanted.size)
    )


def _unsupported_share(problem: Problem) -> float | None:
    """Of the target sample of continuous actions; None where a policy is not known.

    A target policy whose attribute ``has_density`` is False acts on single points of the line,
    and no density puts mass on those.
    """
    logging, target = problem.logging_policy, problem.target_policy
    if logging is None or target is None:
        return None
    if not getattr(target, "has_density", True):
        return 1.0
    density = logging.probability(problem.target_context, problem.target_action)
    return float((density == 0).mean())


def _unsupported_mass(problem: Problem) -> float | None:
    logging, target = problem.logging_policy, problem.target_policy
    if not isinstance(logging, DiscretePolicy) or not isinstance(target, DiscretePolicy):
        return None
    if logging.full_support:
        return 0.0
    rows = max(1, MOST_ENTRIES // logging.n_actions)
    context = problem.target_context[:rows]
    mass = 0.0
    for chunk in row_chunks(len(context), logging.n_actions):
        missing = logging.table(context[chunk]) == 0.0
        mass += float(target.table(context[chunk])[missing].sum())
    return mass / len(context)
