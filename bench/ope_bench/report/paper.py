"""How figures look in a paper: fonts, widths, legends, short labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ope_bench.report.content import Content
from ope_bench.report.styles import PAPER

__all__ = ["LETTER", "WIDTH", "Labels", "Legend", "config"]

WIDTH = 246
"""Points: 3.4 inches, a column."""

SYMBOL = 20
"""Points that a legend's symbol and the space around it take."""

LETTER = 3.7
"""Points that a letter of a legend takes, on average."""


def config() -> dict[str, Any]:
    """A Vega-Lite configuration for print."""
    return {
        "background": "white",
        "padding": 2,
        "font": "Helvetica, Arial, sans-serif",
        "view": {"stroke": "transparent"},
        "range": {"category": list(PAPER)},
        "line": {"strokeWidth": 1.1},
        "point": {"size": 20},
        "rule": {"strokeWidth": 1.4},
        "tick": {"thickness": 1, "bandSize": 7},
        "text": {"fontSize": 7},
        "style": {"cell": {"fontSize": 7}, "hollow": {"size": 6}},
        "axis": {
            "labelFontSize": 7,
            "titleFontSize": 8,
            "titleFontWeight": "normal",
            "titlePadding": 4,
            "gridColor": "#e6e6e6",
            "gridWidth": 0.5,
            "domainWidth": 0.6,
            "domainColor": "#555",
            "tickWidth": 0.6,
            "tickColor": "#555",
            "tickSize": 3,
        },
        "axisYBand": {"grid": True, "ticks": False, "labelPadding": 4},
        "title": {"fontSize": 8, "fontWeight": "normal", "offset": 4},
    }


@dataclass(frozen=True)
class Legend:
    """A legend below a chart.

    Parameters
    ----------
    columns, rows : as many columns as fit.
    """

    columns: int
    rows: int

    @classmethod
    def of(cls, labels: Sequence[str]) -> Legend:
        """The legend of these labels."""
        longest = max(map(len, labels), default=0)
        columns = max(1, min(int(WIDTH / (SYMBOL + LETTER * longest)), 4))
        return cls(columns, -(-len(labels) // columns))

    @property
    def height(self) -> int:
        """Points that it takes."""
        return 8 + 10 * self.rows

    def config(self) -> dict[str, Any]:
        """Its part of a configuration."""
        return {
            "legend": {
                "orient": "bottom",
                "direction": "horizontal",
                "columns": self.columns,
                "labelFontSize": 7,
                "titleFontSize": 7,
                "titleFontWeight": "normal",
                "labelLimit": WIDTH / self.columns - SYMBOL + 4,
                "symbolSize": 28,
                "symbolStrokeWidth": 1.1,
                "rowPadding": 1,
                "columnPadding": 8,
                "offset": 6,
            }
        }


@dataclass(frozen=True)
class Labels:
    """Methods' labels and their short forms.

    Parameters
    ----------
    short : by label, in the order of the methods.
    """

    short: Mapping[str, str]

    @classmethod
    def of(cls, content: Content) -> Labels:
        """Without the names of parameters whose values are words, where that is clear enough."""
        labels = [method.label for method in content.methods]
        brief = [_brief(label) for label in labels]
        times = Counter([*brief, *labels])
        pairs = zip(labels, brief, strict=True)
        return cls(
            {
                label: short if short == label or times[short] == 1 else label
                for label, short in pairs
            }
        )

    def all(self) -> list[str]:
        """The short labels, in the order of the methods."""
        return list(self.short.values())

    def shortened(self, table: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """A table whose methods have their short labels."""
        return [
            {**line, **{n: self.short[line[n]] for n in ("method",) if n in line}}
            | ({"estimator": self.short[line["method"]]} if "estimator" in line else {})
            for line in table
        ]


def _brief(label: str) -> str:
    """Without ``name=`` before a word.

    >>> _brief("dm action_features=one-hot"), _brief("ipw clip=5"), _brief("dr exact=true")
    ('dm one-hot', 'ipw clip=5', 'dr exact=true')
    """
    return re.sub(r"(?<= )\w+=(?!true\b|false\b|null\b)(?=[A-Za-z])", "", label)
