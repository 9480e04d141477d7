"""Boards in a terminal: 80 columns, one line a row, intervals drawn."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from typing import Any

from ope_bench.across import Across, summaries
from ope_bench.leaderboard import Board, Row
from ope_bench.report.columns import (
    ACCESS,
    COVERAGE,
    DAGGER,
    NAME,
    POSITIVITY,
    RATIO,
    RELATIVE,
    RMSE,
    TIME,
    Column,
    board_title,
    figure,
    notes,
    summary_cells,
    summary_notes,
    summary_title,
)

__all__ = ["console_on", "interval_bar", "render_text", "without_padding"]

BAR = 17
FEWEST_SETTINGS = 3
"""Boards from which on a summary says more than the boards themselves."""


def render_text(boards: Iterable[Board], *, width: int = 80, colour: bool = False) -> str:
    """The boards as a terminal shows them.

    Colours mean: green, cannot be told from the best; yellow, handle with care (heavy-tailed,
    some failures); red, most trials failed.
    """
    stream = io.StringIO()
    console = console_on(stream, width, colour=colour)
    kept = list(boards)
    for board in kept:
        _print(console, board, width)
    if len(kept) >= FEWEST_SETTINGS:
        for summary in summaries(kept):
            _print_summary(console, summary)
    return without_padding(stream.getvalue())


def console_on(stream: io.StringIO, width: int, *, colour: bool) -> Any:
    """A rich console that prints text as it is, coloured only if asked to."""
    from rich.console import Console

    return Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def without_padding(text: str) -> str:
    """Lines without the spaces that a console ends them with."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _print(console: Any, board: Board, width: int) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console.print(Text(board_title(board), style="bold"))
    if board.rows:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
        chosen, name_width = _fitted(board, width)
        for column, _ in chosen:
            table.add_column(
                column.header,
                justify="right" if column.number else "left",
                no_wrap=True,
                overflow="ellipsis",
                # Only names may be cut: half a number would be a lie.
                max_width=name_width if column.header == "estimator" else None,
                header_style="dim",
            )
        whole = [
            column.cell(row)
            for column, _ in chosen
            if column.header == "estimator"
            for row in board.rows
        ]
        names = dict(zip(whole, _told_apart(whole, name_width), strict=True))
        for row in board.rows:
            cells = ((column.header, column.cell(row), style(row)) for column, style in chosen)
            table.add_row(
                *(
                    Text(names[cell] if header == "estimator" else cell, style=style)
                    for header, cell, style in cells
                )
            )
        console.print(table)
    for note in notes(board, tied="*"):
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))
    console.print()


def _told_apart(names: list[str], width: int) -> list[str]:
    """Names cut at the end, or in the middle where only their ends tell them apart."""
    cut = [name if len(name) <= width else f"{name[: width - 1]}…" for name in names]
    head = width // 3
    return [
        f"{name[:head]}…{name[head + 1 - width :]}"
        if len(name) > width and cut.count(short) > 1
        else short
        for name, short in zip(names, cut, strict=True)
    ]


def _print_summary(console: Any, summary: Across) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console.print(Text(summary_title(summary), style="bold"))
    header, rows = summary_cells(summary)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place else "left", header_style="dim")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for note in summary_notes(summary):
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))


Style = Callable[[Row], str]

SHORTEST_NAME = 12
EXPENDABLE = ("bias", "rec", "prec", "max w", "memory", "access", "median")
"""What a narrow terminal goes without, first to last."""


def _fitted(board: Board, width: int) -> tuple[list[tuple[Column, Style]], int]:
    """The columns that fit, and how wide the estimator's name may be."""
    chosen = _columns(board, width)
    waiting = list(EXPENDABLE)
    while True:
        rest = sum(
            max(len(column.header), *(len(column.cell(row)) for row in board.rows)) + 1
            for column, _ in chosen
            if column.header != "estimator"
        )
        if width - rest >= SHORTEST_NAME or not waiting:
            return chosen, max(SHORTEST_NAME, width - rest)
        least = waiting.pop(0)
        chosen = [(column, style) for column, style in chosen if column.header != least]


def _columns(board: Board, width: int) -> list[tuple[Column, Style]]:
    """The board's columns for this width, each with what colours it."""
    rank, name = NAME
    known: list[tuple[Column, Style]] = [(rank, _plain), (name, _tied)]
    if board.by == "rmse":
        known[0] = (Column("#", _starred), _plain)
    if board.by == "positivity":
        fail, interval, statuses, *rest = POSITIVITY
        keep = rest if any(row.warned for row in board.rows) else rest[:2]
        known += [(fail, _failed), (interval, _plain), (statuses, _failed)]
        return known + [(column, _plain) for column in keep]
    if board.by == "time":
        return known + [(column, _plain) for column in TIME]
    if board.by == "ratio":
        return known + [(column, _plain) for column in RATIO]
    bar = _bars(board)
    by_header = {column.header: column for column in RMSE}
    known += [(by_header["RMSE"], _plain), (bar, _heavy)]
    if any(row.imputed for row in board.rows):
        known.append((by_header["score"], _plain))
    known += [(by_header["bias"], _plain), (by_header["median"], _plain)]
    known.append((by_header["fail"], _failed))
    if width >= 100:
        known.insert(3, (by_header["95 % interval"], _heavy))
        known.append((RELATIVE, _plain))
        if any(row.coverage is not None for row in board.rows):
            known.append((COVERAGE[0], _plain))
    known.append((ACCESS, _plain))
    return known


def _starred(row: Row) -> str:
    """The rank, with room for the star that colour alone would not carry."""
    rank = "-" if row.rank is None else str(row.rank)
    return f"{rank}{'*' if row.tied else ' '}"


def _plain(row: Row) -> str:
    return ""


def _tied(row: Row) -> str:
    return "bold green" if row.tied else ""


def _heavy(row: Row) -> str:
    return "yellow" if row.heavy_tailed else "green" if row.tied else "cyan"


def _failed(row: Row) -> str:
    rate = row.failure_rate or 0.0
    return "red" if rate > 0.5 else "yellow" if rate > 0 else ""


def _bars(board: Board) -> Column:
    """RMSE and its interval on one logarithmic scale for the whole board."""
    ends = [
        value
        for row in board.rows
        for value in (row.rmse, row.rmse_low, row.rmse_high)
        if value is not None and value > 0
    ]
    low, high = (min(ends), max(ends)) if ends else (1.0, 1.0)
    header = f"{figure(low, 2)}".ljust(BAR - len(figure(high, 2))) + figure(high, 2)

    def cell(row: Row) -> str:
        bar = interval_bar(row.rmse, row.rmse_low, row.rmse_high, low, high)
        return f"{bar} {DAGGER if row.heavy_tailed else ''}".rstrip()

    return Column(header, cell, number=False)


def interval_bar(
    value: float | None,
    start: float | None,
    end: float | None,
    low: float,
    high: float,
    cells: int = BAR,
) -> str:
    """A point and its interval on a logarithmic scale from ``low`` to ``high``.

    >>> interval_bar(2.0, 1.0, 4.0, 1.0, 16.0, cells=9)
    '╶─●─╴    '
    """
    if value is None or value <= 0:
        return " " * cells
    span = math.log(high / low) if high > low else 1.0

    def place(at: float) -> int:
        return min(cells - 1, max(0, round(math.log(at / low) / span * (cells - 1))))

    drawn = [" "] * cells
    if start is not None and end is not None and start > 0:
        first, last = place(start), place(end)
        drawn[first : last + 1] = "─" * (last - first + 1)
        drawn[first], drawn[last] = "╶", "╴"
    drawn[place(value)] = "●"
    return "".join(drawn)
