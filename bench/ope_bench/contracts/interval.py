"""A confidence interval of an estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ope_bench.errors import DataError

__all__ = ["Interval", "IntervalKind"]

IntervalKind = Literal["asymptotic", "empirical-likelihood", "guaranteed", "bootstrap"]
"""How an interval was made, and so what its level rests on.

``asymptotic`` and ``bootstrap`` reach their level as the logs grow, ``empirical-likelihood`` also,
and often earlier; ``guaranteed`` covers at least its level at every number of rows, for rewards in
a known range and correct propensities.
"""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of the target policy's value.

    Parameters
    ----------
    low, high : its ends.
    level : probability with which it is to hold the value.
    kind : how it was made.

    >>> interval = Interval(0.2, 0.5, 0.95, "guaranteed")
    >>> interval.width
    0.3
    >>> print(interval)
    95 % guaranteed interval 0.2 to 0.5
    """

    low: float
    high: float
    level: float = 0.95
    kind: IntervalKind = "asymptotic"

    def __post_init__(self) -> None:
        for name in ("low", "high", "level"):
            try:
                value = float(getattr(self, name))
            except (TypeError, ValueError) as exc:
                msg = f"interval: {name} is {getattr(self, name)!r}; expected a number"
                raise DataError(msg) from exc
            if not math.isfinite(value):
                msg = f"interval: {name} is {value}; expected a finite number"
                raise DataError(msg)
            object.__setattr__(self, name, value)
        if self.low > self.high:
            msg = f"interval: low is {self.low}, above high, {self.high}"
            raise DataError(msg)
        if not 0 < self.level < 1:
            msg = f"interval: level is {self.level}; expected a number between 0 and 1"
            raise DataError(msg)
        if self.kind not in get_args(IntervalKind):
            known = ", ".join(map(repr, get_args(IntervalKind)))
            msg = f"interval: kind is {self.kind!r}; expected one of {known}"
            raise DataError(msg)

    def __str__(self) -> str:
        words = f"{100 * self.level:.6g} % {self.kind} interval"
        return f"{words} {self.low:.6g} to {self.high:.6g}"

    def holds(self, value: float) -> bool:
        """Return whether a value is in it, its ends included."""
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """Distance of its ends."""
        return self.high - self.low
