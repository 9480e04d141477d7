"""Places of names beside lines and points, so that none lies on another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Frame", "line_ends", "point_names", "spread"]

LINE_HEIGHT = 7.2
"""Points between the names of two lines."""


@dataclass(frozen=True)
class Frame:
    """The drawn part of an axis.

    Parameters
    ----------
    low, high : ends of the domain, in the scale's own unit: logarithms for a logarithmic one.
    length : in points.
    """

    low: float
    high: float
    length: float

    def points(self, value: float) -> float:
        """Return the distance of a value from the low end, in points."""
        return (value - self.low) / (self.high - self.low) * self.length

    def value(self, points: float) -> float:
        """Return the value at a distance from the low end."""
        return self.low + points / self.length * (self.high - self.low)


def spread(wanted: Sequence[float], gap: float, length: float) -> list[float]:
    """Return places near the wanted ones, at least a gap apart and within a length if they fit.

    >>> spread([5.0, 5.0, 20.0], 4.0, 30.0)
    [3.0, 7.0, 20.0]
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    # Groups of names that touch: (sum of wanted centers, their places).
    groups: list[tuple[list[int], float]] = []
    for index in order:
        members, center = [index], wanted[index]
        while True:
            half = gap * (len(members) - 1) / 2
            center = min(max(center, half), max(length - half, half))
            if not groups:
                break
            before, middle = groups[-1]
            touching = center - half - (middle + gap * (len(before) - 1) / 2)
            if touching >= gap - 1e-9:
                break
            groups.pop()
            members = before + members
            center = sum(wanted[one] for one in members) / len(members)
        groups.append((members, center))
    places = [0.0] * len(wanted)
    for members, center in groups:
        for place, index in enumerate(members):
            places[index] = center + gap * (place - (len(members) - 1) / 2)
    return places


def line_ends(
    lines: Sequence[dict[str, Any]], measure: str, frame: Frame, scale: Callable[[float], float]
) -> list[dict[str, Any]]:
    """Return the last point of each line, with a place for its name.

    Parameters
    ----------
    lines : rows of a sweep: ``method``, ``value`` and the measure.
    measure : column of the vertical axis.
    frame : the vertical axis.
    scale : converts the measure to the frame's unit, ``math.log10`` or the identity.
    """
    last: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line[measure] is not None and line["value"] >= last.get(line["method"], line)["value"]:
            last[line["method"]] = line
    ends = [
        {
            "method": method,
            "value": line["value"],
            "y": min(max(scale(line[measure]), frame.low), frame.high),
        }
        for method, line in last.items()
    ]
    places = spread([frame.points(end["y"]) for end in ends], LINE_HEIGHT, frame.length)
    back: Callable[[float], float] = (lambda v: 10.0**v) if scale is math.log10 else float
    return [
        end | {"y": back(end["y"]), "at": back(frame.value(place))}
        for end, place in zip(ends, places, strict=True)
    ]


def point_names(
    rows: Sequence[dict[str, Any]], across: Frame, up: Frame, letter: float
) -> list[dict[str, Any]]:
    """Return a place for the name of each point: beside it, or above or below others' names.

    Parameters
    ----------
    rows : ``method``, ``seconds`` and ``rmse``.
    across, up : the axes, logarithmic.
    letter : width of a letter in points.
    """
    points = [
        (across.points(math.log10(row["seconds"])), up.points(math.log10(row["rmse"])))
        for row in rows
    ]
    boxes = [(x - 3, x + 3, y - 3, y + 3) for x, y in points]
    named = []
    for row, (x, y) in sorted(zip(rows, points, strict=True), key=lambda one: -one[1][1]):
        width = 5 + letter * len(row["method"])
        options = [
            (overlap, abs(shift), left, shift)
            for shift in (0.0, 5.0, -5.0, 9.0, -9.0, 14.0, -14.0, 20.0, -20.0)
            for left in (False, True)
            if (overlap := _overlap(_box(x, y + shift, width, left), boxes, across, up)) < math.inf
        ]
        _, _, left, shift = min(options, default=(0.0, 0.0, x > across.length / 2, 0.0))
        boxes.append(_box(x, y + shift, width, left))
        named.append(
            {
                "method": row["method"],
                "x": row["seconds"],
                "y": 10 ** up.value(y + shift),
                "left": left,
            }
        )
    return named


Box = tuple[float, float, float, float]


def _box(x: float, y: float, width: float, left: bool) -> Box:
    return (x - width, x - 4, y - 3, y + 3) if left else (x + 4, x + width, y - 3, y + 3)


def _overlap(box: Box, others: Sequence[Box], across: Frame, up: Frame) -> float:
    """Return the area that a box shares with others; infinite outside of the frame."""
    low, high, bottom, top = box
    if low < 0 or high > across.length or bottom < 0 or top > up.length:
        return math.inf
    return sum(
        max(0.0, min(high, b) - max(low, a)) * max(0.0, min(top, d) - max(bottom, c))
        for a, b, c, d in others
    )
