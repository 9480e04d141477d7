"""The range of the rewards that guaranteed intervals need."""

from __future__ import annotations

from ope_bench import UnavailableError, View

__all__ = ["declared_limits"]


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
