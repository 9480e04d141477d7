"""What each method looks like, so that no two look the same in one chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ope_bench.report.charts.encodings import HOLLOW

__all__ = ["PAGE", "PAPER", "Style", "apply", "styles", "styles_of"]

PAPER = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b",
    "#7f7f7f", "#9467bd",
)  # fmt: skip
"""Colours on white, told apart by colour-blind readers as far as ten can be."""

PAGE = (
    "#4c78a8", "#e4772e", "#3a9c4e", "#c93c3c", "#8a63b8", "#9c6b4e", "#d46ba9", "#708090",
    "#a3a12a", "#1fa3b5",
)  # fmt: skip
"""Colours that are seen on white and on black."""

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


@dataclass(frozen=True)
class Style:
    """A colour, a line pattern and a point shape."""

    colour: str
    dash: tuple[int, ...]
    shape: str


def styles(n: int, palette: Sequence[str]) -> list[Style]:
    """Different styles, by colour first.

    Lines alone and points alone are told apart up to eight times the palette; together further.

    >>> found = styles(600, PAGE)
    >>> len(set(found)), len({(one.colour, one.dash) for one in found[:80]})
    (600, 80)
    """
    found = []
    for index in range(n):
        # The next turn of the palette takes the next pattern and the next shape.
        turn, colour = divmod(index, len(palette))
        dash = DASHES[turn % len(DASHES)]
        shape = SHAPES[(turn + turn // len(DASHES)) % len(SHAPES)]
        found.append(Style(palette[colour], dash, shape))
    return found


def styles_of(labels: Sequence[str], palette: Sequence[str]) -> dict[str, Style]:
    """Styles by label, in the labels' order.

    They follow the alphabet: what a method looks like depends neither on its rank nor on the
    setting, so that figures of several suites with the same methods can stand side by side.

    >>> styles_of(["b", "a"], PAGE) == dict(reversed(styles_of(["a", "b"], PAGE).items()))
    True
    """
    known = dict(zip(sorted(labels), styles(len(labels), palette), strict=True))
    return {label: known[label] for label in labels}


def apply(spec: Any, chosen: Mapping[str, Style], background: str) -> None:
    """Give the methods of a chart their styles, in place.

    Parameters
    ----------
    spec : a Vega-Lite specification.
    chosen : styles by method, in the order of the legend.
    background : what hollow points are filled with.
    """
    ranges = {
        "color": [one.colour for one in chosen.values()],
        "strokeDash": [list(one.dash) for one in chosen.values()],
        "shape": [one.shape for one in chosen.values()],
    }
    waiting = [spec]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            for channel, values in ranges.items():
                encoding = node.get(channel)
                if isinstance(encoding, dict) and encoding.get("field") == "method":
                    encoding["scale"] = {"domain": list(chosen), "range": values}
            if node.get("value") == HOLLOW:
                node["value"] = background
            waiting += [value for name, value in node.items() if name != "datasets"]
        elif isinstance(node, list):
            waiting += node
