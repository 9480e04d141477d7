"""What guaranteed intervals need to know: ranges of rewards and weights, sizes of units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    DiscretePolicy,
    Estimate,
    FloatArray,
    UnavailableError,
    View,
)

__all__ = ["declared_limits", "largest_ratio", "without_interval"]

NO_SIZE = (
    "a guaranteed or anytime interval needs largest_unit, the most rows that a unit can have, "
    "since sizes may tell of rewards"
)


def declared_limits(view: View, given: tuple[float, float] | None) -> tuple[float, float]:
    """Return the range that is given, else the environment's.

    Raises
    ------
    UnavailableError : there is neither; a range that the logs show would guarantee nothing.
    """
    limits = view.reward_range if given is None else given
    if limits is None:
        msg = (
            "interval=guaranteed needs the range of the rewards, which the environment "
            "does not declare: give reward_range=[[LOW,HIGH]]"
        )
        raise UnavailableError(msg)
    return limits


def largest_ratio(view: View) -> FloatArray | None:
    """Return the largest weight that each row's context allows, None where that is unknown: (n,).

    It is infinite where the logging policy lacks an action of the target policy.
    """
    try:
        logging, target = view.logging_policy, view.target_policy
    except UnavailableError:
        return None
    if not (isinstance(logging, DiscretePolicy) and isinstance(target, DiscretePolicy)):
        return None
    found = np.empty(view.n)
    for rows, below in logging.blocks(view.context):
        above = target.table(view.context[rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            found[rows] = np.where(above > 0, above / below, 0.0).max(axis=1)
    return found


def without_interval(estimate: Estimate) -> Estimate:
    """Return the value alone, and why it has no interval."""
    facts = {**estimate.diagnostics, STANDARD_ERROR_WITHHELD: NO_SIZE}
    return replace(estimate, standard_error=None, interval=None, diagnostics=facts)
