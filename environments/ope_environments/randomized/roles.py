"""Roles of a table's columns in a randomized trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ope_bench import ParameterError

__all__ = ["AssignedBy", "Roles"]

AssignedBy = Literal["row", "unit"]
"""What an arm was drawn for."""


@dataclass(frozen=True)
class Roles:
    """Names of columns.

    Parameters
    ----------
    context : columns that policies may depend on, measured before the arm was drawn.
    arm, outcome : the randomized action, and the reward.
    stratum : within whose values arms were drawn; None for one stratum.
    unit : rows of a unit depend on each other; None where each row is its own.
    propensity : probability of the row's arm; None where it is given otherwise.
    categorical : columns of context that contain codes, though they are numbers.
    shares : probability of each arm, the same in all strata; None for the shares of the rows.
    assigned : what an arm was drawn for.
    """

    context: tuple[str, ...]
    arm: str
    outcome: str
    stratum: str | None = None
    unit: str | None = None
    propensity: str | None = None
    categorical: tuple[str, ...] = ()
    shares: tuple[tuple[str, float], ...] | None = None
    assigned: AssignedBy = "row"

    def __post_init__(self) -> None:
        named = [*self.context, self.arm, self.outcome, self.stratum, self.propensity]
        twice = next((name for name in named if name and named.count(name) > 1), None)
        if twice is not None:
            msg = (
                f"randomized: column '{twice}' is named twice; context, arm, outcome, stratum and "
                "propensity must differ (the stratum is shown as a context by itself)"
            )
            raise ParameterError(msg)
        if not self.context:
            msg = "randomized: name at least one context column"
            raise ParameterError(msg)
        stray = set(self.categorical) - set(self.context)
        if stray:
            msg = f"randomized: categorical column '{min(stray)}' is not in context"
            raise ParameterError(msg)
        if self.assigned == "unit" and self.unit is None:
            msg = "randomized: assigned = unit needs the column of the unit"
            raise ParameterError(msg)
        if self.shares is not None and self.propensity is not None:
            msg = "randomized: give shares or a propensity column, not both"
            raise ParameterError(msg)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        named = (self.arm, self.outcome, self.stratum, self.unit, self.propensity)
        return (*self.context, *filter(None, named))
