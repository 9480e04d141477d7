"""Style of figures for papers: fonts, widths, legends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ope_bench.report.charts.estimator_styles import colors

__all__ = ["LETTER", "POINT", "STROKE", "WIDTH", "WIDTHS", "Legend", "config"]

WIDTH = 246
"""Points: 3.4 inches, a column."""

WIDTHS = {"single": WIDTH, "double": 2 * WIDTH}
"""Widths of figures by size; articles of two columns are a little over two columns wide."""

ROOM = WIDTH - 24
"""Width of a legend, right of the start of the axis."""

POINT, STROKE = (20, 10), (32, 14)
"""Width and height of a legend's symbols, points or pieces of lines."""

LETTER = 3.7
"""Average width of a letter of a legend, in points."""


def config() -> dict[str, Any]:
    """Return a Vega-Lite configuration for print."""
    return {
        "background": "white",
        "padding": 2,
        "font": "Helvetica, Arial, sans-serif",
        "view": {"stroke": "transparent"},
        "range": {"category": list(colors())},
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
    columns, rows : numbers of columns and rows; as many columns as fit.
    symbol : width and height of a symbol.
    """

    columns: int
    rows: int
    symbol: tuple[int, int]

    @classmethod
    def of(cls, labels: Sequence[str], symbol: tuple[int, int] = POINT) -> Legend:
        """Lay out the legend of labels."""
        longest = max(map(len, labels), default=0)
        columns = max(1, min(int(ROOM / (symbol[0] + LETTER * longest)), 4))
        return cls(columns, -(-len(labels) // columns), symbol)

    @property
    def height(self) -> int:
        """The height in points."""
        return 8 + self.symbol[1] * self.rows

    def config(self) -> dict[str, Any]:
        """Return the legend's part of a configuration."""
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
