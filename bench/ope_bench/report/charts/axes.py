"""Logarithmic axes: powers of ten, units of time, and limits beyond which marks are cut."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Limits", "limits_of", "log_axis", "log_scale", "symlog_axis", "symlog_ticks"]

Unit = Literal["", "s"]

FAR = 30.0
"""How many times the upper quartile a value must exceed before the axis ends below it."""

ROOM = 3.0
"""How far an axis that ends below a value goes beyond the upper quartile, as a factor."""

_NUMBER = (
    "abs(datum.value) >= 0.0009 && abs(datum.value) < 9999 || datum.value == 0 ? "
    "format(datum.value, '~g') : replace(format(datum.value, '~e'), '+', '')"
)
_SECONDS = (
    "datum.value < 9.99e-4 ? format(datum.value * 1e6, '~g') + ' µs' : "
    "datum.value < 0.999 ? format(datum.value * 1e3, '~g') + ' ms' : "
    "format(datum.value, '~g') + ' s'"
)


@dataclass(frozen=True)
class Limits:
    """Ends of an axis.

    Parameters
    ----------
    low, high : ends of the axis.
    cut : whether values lie above.
    """

    low: float
    high: float
    cut: bool = False

    @property
    def domain(self) -> tuple[float, float]:
        """The ends with some room, above with more where arrows stand for what was cut."""
        width = max(math.log10(self.high / self.low), 0.3)
        above = 0.16 if self.cut else 0.07
        return self.low / 10 ** (0.07 * width), self.high * 10 ** (above * width)


def limits_of(values: Iterable[float | None]) -> Limits | None:
    """Return the ends of a logarithmic axis; None without a positive finite value.

    The axis has all values unless the largest is far above the upper quartile: one such value
    would leave no room for the differences of all others.

    >>> limits_of([0.1, 0.2, 0.4, 3.0])
    Limits(low=0.1, high=3.0, cut=False)
    >>> limits_of([0.1, 0.2, 0.4, 0.5, 1e11]).cut
    True
    """
    known = sorted(one for one in values if one is not None and 0 < one < math.inf)
    if not known:
        return None
    quartile = known[(3 * (len(known) - 1)) // 4]
    if known[-1] <= FAR * quartile:
        return Limits(known[0], known[-1])
    kept = [one for one in known if one <= FAR * quartile]
    return Limits(known[0], max(kept[-1], ROOM * quartile), True)


def log_scale(padding: int = 14, limits: Limits | None = None) -> Any:
    """Return a logarithmic scale that ends near the data, or at limits.

    Parameters
    ----------
    padding : points between the data and the ends.
    limits : ends of the axis; its marks must be cut there.
    """
    import altair as alt

    if limits is None:
        return alt.Scale(type="log", nice=False, padding=padding)
    return alt.Scale(type="log", nice=False, domain=list(limits.domain))


def log_axis(unit: Unit = "", limits: Limits | None = None, **facts: Any) -> Any:
    """Return a logarithmic axis with powers of ten, over few powers with 2 and 5 as well.

    Parameters
    ----------
    unit : ``s`` writes seconds as µs, ms and s.
    limits : ends of the axis; without them, the chart chooses ticks when it is drawn.
    facts : further properties of the axis.
    """
    import altair as alt

    label = _SECONDS if unit == "s" else _NUMBER
    if limits is None:
        first = "round(datum.value / pow(10, floor(log(datum.value)/LN10 + 1e-6)))"
        shown = f"{first} == 1 || {first} == 2 || {first} == 5 ? {label} : ''"
        return alt.Axis(labelExpr=shown, labelOverlap="greedy", **facts)
    values = _ticks(limits)
    return alt.Axis(labelExpr=label, values=values, labelOverlap="greedy", **facts)


def _ticks(limits: Limits) -> list[float]:
    low, high = math.floor(math.log10(limits.low)), math.ceil(math.log10(limits.high))
    decades = math.log10(limits.high / limits.low)
    step = max(1, math.ceil(decades / 7))
    firsts: Sequence[int] = (1, 2, 5) if decades < 1.6 else (1, 3) if decades < 2.2 else (1,)
    return [
        # By text, so that a power of ten is one exactly.
        float(f"{first}e{power}")
        for power in range(low - 1, high + 2)
        if power % step == 0 or len(firsts) > 1
        for first in firsts
    ]


def symlog_axis(unit: float, most: float) -> Any:
    """Return the axis of a scale that is linear within a unit and ends at ``most``."""
    import altair as alt

    return alt.Axis(labelExpr=_NUMBER, values=symlog_ticks(unit, most), labelOverlap="greedy")


def symlog_ticks(unit: float, most: float) -> list[float]:
    """Return 0 and powers of ten on both sides, for an axis that is linear within a unit.

    >>> symlog_ticks(0.02, 3.0)
    [-1.0, -0.1, 0.0, 0.1, 1.0]
    """
    first = math.ceil(math.log10(unit))
    last = max(first, math.floor(math.log10(max(most, 1e-300))))
    step = max(1, math.ceil((last - first + 1) / 4))
    powers = [float(f"1e{power}") for power in range(last, first - 1, -step)]
    return [*(-one for one in powers), 0.0, *reversed(powers)]
