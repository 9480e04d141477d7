"""A figure and its interval, drawn in characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ope_bench.boards.board import Row
from ope_bench.boards.columns.emphasis import HEAVY, interval_style
from ope_bench.report.text.formats import figure
from ope_bench.report.text.table import Cell, TableColumn

__all__ = ["bar_column", "interval_bar"]

BAR = 17
ROUNDING = 1e-9

FARTHEST = 10.0
"""How far beyond the smallest and largest figure the scale goes, as a factor; intervals that reach
farther are cut, since one of them would else leave no room for all others."""


def bar_column(rows: Sequence[Row]) -> tuple[TableColumn, list[Cell]]:
    """Draw RMSE and interval of all rows on one logarithmic scale, which is the heading."""
    values = [row.rmse.value for row in rows if row.rmse.value]
    least, most = (min(values), max(values)) if values else (1.0, 1.0)
    ends = [end for row in rows for end in (row.rmse.low, row.rmse.high) if end]
    low = max(least / FARTHEST, min([least, *ends]))
    high = min(most * FARTHEST, max([most, *ends]))
    title = f"{figure(low, 2)}".ljust(BAR - len(figure(high, 2))) + figure(high, 2)
    return TableColumn(key="bar", title=title, right=False), [
        _cell(row, low, high) for row in rows
    ]


def _cell(row: Row, low: float, high: float) -> Cell:
    sign = HEAVY.sign if row.heavy_tailed else ""
    end = math.inf if row.rmse.low is not None and row.rmse.high is None else row.rmse.high
    bar = interval_bar(row.rmse.value, row.rmse.low, end, low, high)
    return Cell(f"{bar} {sign}".rstrip(), style=interval_style(row))


def interval_bar(
    value: float | None,
    start: float | None,
    end: float | None,
    low: float,
    high: float,
    cells: int = BAR,
) -> str:
    """Draw a point and its interval on a logarithmic scale from ``low`` to ``high``.

    An end beyond the scale is an arrow.

    >>> interval_bar(2.0, 1.0, 4.0, 1.0, 16.0, cells=9)
    '╶─●─╴    '
    >>> interval_bar(2.0, 1.0, 40.0, 1.0, 16.0, cells=9)
    '╶─●─────›'
    """
    if value is None or value <= 0:
        return " " * cells
    span = math.log(high) - math.log(low) if high > low else 1.0

    def along(number: float) -> float:
        # A quotient of a huge and a tiny number overflows.
        return (math.log(number) - math.log(low)) / span

    def cell_of(number: float) -> int:
        if math.isinf(number):
            return cells - 1
        return min(cells - 1, max(0, round(along(number) * (cells - 1))))

    drawn = [" "] * cells
    if start is not None and end is not None and start > 0:
        first, last = cell_of(start), cell_of(end)
        drawn[first : last + 1] = "─" * (last - first + 1)
        drawn[first] = "‹" if start < low * (1 - ROUNDING) else "╶"
        drawn[last] = "›" if end > high * (1 + ROUNDING) else "╴"
    drawn[cell_of(value)] = "●"
    return "".join(drawn)
