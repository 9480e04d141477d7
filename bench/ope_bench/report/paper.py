"""How figures look in a paper: fonts, widths, legends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ope_bench.report.styles import PAPER

__all__ = ["LETTER", "POINT", "STROKE", "WIDTH", "Legend", "config"]

WIDTH = 246
"""Points: 3.4 inches, a column."""

ROOM = WIDTH - 24
"""What a legend has of it, right of where the axis begins."""

POINT, STROKE = (20, 10), (32, 14)
"""Width and height that a legend's symbol takes, points or pieces of lines."""

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
    symbol : width and height of a symbol.
    """

    columns: int
    rows: int
    symbol: tuple[int, int]

    @classmethod
    def of(cls, labels: Sequence[str], symbol: tuple[int, int] = POINT) -> Legend:
        """The legend of these labels."""
        longest = max(map(len, labels), default=0)
        columns = max(1, min(int(ROOM / (symbol[0] + LETTER * longest)), 4))
        return cls(columns, -(-len(labels) // columns), symbol)

    @property
    def height(self) -> int:
        """Points that it takes."""
        return 8 + self.symbol[1] * self.rows

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
                "labelLimit": ROOM / self.columns - self.symbol[0] + 4,
                "symbolSize": 28,
                "symbolStrokeWidth": 1.1,
                "rowPadding": 1,
                "columnPadding": 8,
                "offset": 6,
            }
        }
