"""Layout of figures around their charts: style in print, places of names, file names, captions.

This module imports neither NumPy nor Altair, since the command line names the kinds of figures.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ope_bench.base.canonical import digest
from ope_bench.report.styles import colors

# Style

WIDTH = 229
"""Points: a column of the class ``article``; those of ICML (234) and ACM (241) are wider."""

WIDTHS = {"single": WIDTH, "double": 2 * WIDTH}
"""Widths of figures by size; articles of two columns are a little over two columns wide."""

_LEGEND_WIDTH = WIDTH - 24
"""Width of a legend, right of the start of the axis."""

POINT, STROKE = (20, 10), (32, 14)
"""Width and height of a legend's symbols, points or pieces of lines."""

LETTER = 3.7
"""Average width of a letter of a legend, in points."""


def config() -> dict[str, Any]:
    """Return a Vega-Lite configuration for print."""
    styles: dict[str, Any] = json.loads(Path(__file__).with_name("print.json").read_bytes())
    return styles | {"range": {"category": list(colors())}}


def legend(labels: Sequence[str], symbol: tuple[int, int]) -> tuple[int, dict[str, Any]]:
    """Return the height of a legend below a chart, and its part of a configuration.

    Parameters
    ----------
    labels : of the estimators; as many columns as fit.
    symbol : width and height of a symbol.
    """
    longest = max(map(len, labels), default=0)
    columns = max(1, min(int(_LEGEND_WIDTH / (symbol[0] + LETTER * longest)), 4))
    rows = -(-len(labels) // columns)
    return 8 + symbol[1] * rows, {
        "orient": "bottom",
        "direction": "horizontal",
        "columns": columns,
        "labelFontSize": 7,
        "titleFontSize": 7,
        "titleFontWeight": "normal",
        "labelLimit": _LEGEND_WIDTH / columns - symbol[0] + 4,
        "symbolSize": 28,
        "symbolStrokeWidth": 1.1,
        "rowPadding": 1,
        "columnPadding": 8,
        "offset": 6,
    }


# Places of names beside lines and points, so that none lies on another

_LINE_HEIGHT = 7.2
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
    places = spread([frame.points(end["y"]) for end in ends], _LINE_HEIGHT, frame.length)
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


# File names

LONGEST = 56
_DIGITS = 6


def file_names(subjects: Sequence[tuple[str, str]]) -> list[str]:
    """Return a file name for each subject, without a suffix.

    Long names, and names that are equal as file names, end in digits of a hash of the identity.

    Parameters
    ----------
    subjects : (name, identity): kind and label of a figure, and what tells it from all others.

    >>> file_names([(f"cdf toy n_actions={n}", f"{n}") for n in (100, 10)])
    ['cdf-toy-n-actions-100', 'cdf-toy-n-actions-10']
    """
    plain = [re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") for name, _ in subjects]
    times = Counter(plain)
    # Cut after whole words, with room for a hyphen and the digits.
    room = LONGEST - _DIGITS - 1
    return [
        name
        if times[name] == 1 and len(name) <= LONGEST
        else f"{_cut(name, room)}-{digest(identity)[:_DIGITS]}"
        for name, (_, identity) in zip(plain, subjects, strict=True)
    ]


def _cut(name: str, room: int) -> str:
    return name if len(name) <= room else name[: room + 1].rpartition("-")[0] or name[:room]


# Captions

_TEXTS = tomllib.loads(Path(__file__).with_name("captions.toml").read_text(encoding="utf-8"))
CAPTIONS: Mapping[str, Mapping[str, str]] = {
    kind: {mark: " ".join(text.split()) for mark, text in texts.items()}
    for kind, texts in _TEXTS.items()
}
"""Sentences of captions, by kind of figure and the mark that they explain."""

ALWAYS = "all"
"""What every figure of a kind has."""
