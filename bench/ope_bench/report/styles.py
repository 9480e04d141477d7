"""Styles of estimators: the same color, line pattern and point shape in every chart.

Colors are at least 10 apart in CAM02-UCS under deuteranopia, when green is not seen. Estimators
that often stand together have different ones; pattern and shape tell lines apart in greyscale too.
Who shares a color is listed in ``estimator_families.json``; an estimator that is not listed has
the color and the shape that its id gives.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from zlib import crc32

DASHES = ((1, 0), (5, 2), (2, 2), (8, 2, 2, 2), (1, 2), (10, 3), (6, 2, 2, 2, 2, 2), (4, 1))

SHAPES = (
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",
    "M-.85,-.85H.85V.85H-.85Z",
    "M0,-1.1L1,.75H-1Z",
    "M0,-1.2L1,0L0,1.2L-1,0Z",
    "M-.4,-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
    "M0,1.1L1,-.75H-1Z",
    "M1.1,0L-.75,1V-1Z",
    "M-1.1,0L.75,1V-1Z",
)
"""Circle, square, triangle up, diamond, cross, triangles down, right and left, as SVG paths."""

HOLLOW = "paper"
"""Placeholder of the background color in charts."""


@dataclass(frozen=True)
class Style:
    """A color, a line pattern and a point shape."""

    color: str
    dash: tuple[int, ...]
    shape: str


@cache
def _families() -> dict[str, Any]:
    text = (files("ope_bench.report") / "estimator_families.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def colors() -> tuple[str, ...]:
    """Return the colors of the families, which are visible on white and on black."""
    return tuple(_families()["colors"])


@cache
def _place(estimator: str) -> tuple[bool, int, int]:
    """Return whether an estimator is in no family, its color, and its place in the family."""
    for color, members in enumerate(_families()["families"]):
        if estimator in members:
            return False, color, members.index(estimator)
    places = len(colors()) * len(SHAPES)
    return True, *divmod(crc32(estimator.encode()) % places, len(SHAPES))


def styles_of(estimators: Mapping[str, str]) -> dict[str, Style]:
    """Return styles by label, in the labels' order.

    An estimator with its default parameters always has the same style. With other parameters its
    style begins at a place that the label gives, and moves on where another label has it already.

    Parameters
    ----------
    estimators : ids of the estimators, by label.

    >>> both = styles_of({"ipw": "ipw", "ipw clip=5": "ipw"})
    >>> both["ipw"] == styles_of({"dm": "dm", "ipw": "ipw"})["ipw"]
    True
    >>> both["ipw"].color == both["ipw clip=5"].color, len(set(both.values()))
    (True, 2)
    """
    found: dict[str, Style] = {}
    # Listed estimators choose first, those with default parameters before the others.
    order = sorted(estimators, key=lambda one: (one != estimators[one], _place(one)[0], one))
    for label in order:
        _, color, place = _place(estimators[label])
        if label != estimators[label]:
            place += 1 + crc32(label.encode()) % len(SHAPES)
        taken = set(found.values())
        found[label] = next(one for one in _candidates(color, place) if one not in taken)
    return {label: found[label] for label in estimators}


def _candidates(color: int, place: int) -> Iterator[Style]:
    """Yield all styles, those of a color first.

    Pattern and shape both change with the place; the same pattern has another shape in another
    family, so that both together tell lines of eight families apart without colors.
    """
    palette, n = colors(), len(SHAPES)
    for turn in range(len(palette)):
        family = (color + turn) % len(palette)
        for shift in range(n):
            for step in range(place, place + n):
                # 3 has no factor in common with 8, so that eight places have eight shapes.
                shape = SHAPES[(family + 3 * step) % n]
                yield Style(palette[family], DASHES[(step + shift) % n], shape)


HIGHLIGHT = Style("#000000", DASHES[0], SHAPES[0])
"""Style of an estimator that must be seen first, on white."""


def apply(
    spec: Any,
    chosen: Mapping[str, Style],
    background: str,
    highlighted: Collection[str] = (),
) -> None:
    """Set the styles of a chart's estimators, in place.

    Parameters
    ----------
    spec : a Vega-Lite specification.
    chosen : styles by estimator, in the order of the legend.
    background : fill color of hollow points.
    highlighted : estimators whose lines and points are strong; those of others are pale.
    """
    strong = {"test": {"field": "method", "oneOf": list(highlighted)}}
    opacity = {"opacity": {"condition": strong | {"value": 1}, "value": 0.45}}
    width = {"size": {"condition": strong | {"value": 2.2}, "value": 1.1}}
    ranges = {
        "color": [one.color for one in chosen.values()],
        "strokeDash": [list(one.dash) for one in chosen.values()],
        "shape": [one.shape for one in chosen.values()],
    }
    waiting = [spec]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            mark = node.get("mark")
            kind = mark.get("type") if isinstance(mark, dict) else mark
            encoding = node.get("encoding", {})
            by_estimator = encoding.get("color", {}).get("field") == "method"
            if highlighted and kind in ("line", "point", "rule") and by_estimator:
                node["encoding"] = encoding | opacity | (width if kind == "line" else {})
            for channel, values in ranges.items():
                encoding = node.get(channel)
                if isinstance(encoding, dict) and encoding.get("field") == "method":
                    encoding["scale"] = {"domain": list(chosen), "range": values}
            if node.get("value") == HOLLOW:
                node["value"] = background
            waiting += [value for name, value in node.items() if name != "datasets"]
        elif isinstance(node, list):
            waiting += node


def short_labels(labels: Sequence[str]) -> dict[str, str]:
    """Return short labels by label, without names of parameters where labels stay unique.

    >>> short_labels(["dm features=one-hot", "dm features=all", "ipw clip=5"])
    {'dm features=one-hot': 'dm one-hot', 'dm features=all': 'dm all', 'ipw clip=5': 'ipw clip=5'}
    """
    # Numbers and truth values keep the names of their parameters.
    name = re.compile(r"(?<= )\w+=(?!true\b|false\b|null\b)(?=[A-Za-z])")
    brief = [name.sub("", label) for label in labels]
    times = Counter([*brief, *labels])
    return {
        label: short if times[short] == 1 else label
        for label, short in zip(labels, brief, strict=True)
    }
