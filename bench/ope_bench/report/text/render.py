"""Render boards in one of the formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ope_bench.boards.board import Board
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.boards.columns.registry import select_columns
from ope_bench.boards.policy_selection import SelectionBoard
from ope_bench.boards.regret import RegretBoard
from ope_bench.boards.summary import summaries
from ope_bench.report.parameter_columns import parameter_columns
from ope_bench.report.text.board_notes import BOLD, STAR
from ope_bench.report.text.boards import (
    board_table,
    csv_table,
    regret_csv_table,
    regret_table,
    selection_csv_table,
    selection_table,
    summary_table,
    terminal_table,
)
from ope_bench.report.text.renderers.csv import render_csv
from ope_bench.report.text.renderers.latex import render_latex
from ope_bench.report.text.renderers.markdown import render_markdown
from ope_bench.report.text.renderers.terminal import render_text
from ope_bench.report.text.sweep_table import ParameterSweep, sweep_csv_table, sweep_table
from ope_bench.report.text.table import Table

__all__ = [
    "FEWEST_SETTINGS",
    "BoardFormat",
    "render",
    "render_over_settings",
    "render_sweeps",
    "render_tables",
]

BoardFormat = Literal["text", "markdown", "latex", "csv"]

LATEX_COLUMNS = ("estimator", "rmse", "rmse_interval", "median_absolute_error", "failure_rate")
"""Columns that fit in one column of an article; ``--columns`` names others."""

FEWEST_SETTINGS = 3
"""Number of boards from which on text output has a summary instead of all boards."""

TABLES: Mapping[type, Callable[..., Table]] = {
    SelectionBoard: selection_table,
    RegretBoard: regret_table,
}
"""Functions that make the table of a board over several settings, by its class."""

CSV_TABLES: Mapping[type, Callable[..., Table]] = {
    SelectionBoard: selection_csv_table,
    RegretBoard: regret_csv_table,
}
"""Functions that make the same table for programs."""


def render(
    boards: Sequence[Board],
    form: BoardFormat = "text",
    *,
    width: int = 80,
    color: bool = False,
    columns: Sequence[BoardColumn] | None = None,
) -> str:
    """Return the boards in one of the formats, text and Markdown with a summary over settings.

    Parameters
    ----------
    boards : what to show.
    form : ``text`` for a terminal, ``markdown``, ``latex`` or ``csv``.
    width : columns of the terminal.
    color : whether text may hold escape sequences.
    columns : exactly these, in this order, and no summary.
    """
    if form == "csv":
        parameters = parameter_columns(boards)
        return render_csv(csv_table(board, columns, parameters) for board in boards)
    if form == "latex":
        return render_tables((_latex_table(board, columns) for board in boards), form)
    make = terminal_table if form == "text" else board_table
    tables = [make(board, columns) for board in boards]
    if columns is None and len(boards) >= FEWEST_SETTINGS:
        tables += [summary_table(summary) for summary in summaries(boards)]
    return render_tables(tables, form, width=width, color=color, whole=columns is not None)


def _latex_table(board: Board, columns: Sequence[BoardColumn] | None) -> Table:
    """Make the table of a board for an article: by default few columns, without empty ones."""
    if columns is not None or board.by != "rmse":
        return board_table(board, columns)
    chosen = select_columns(LATEX_COLUMNS)
    return board_table(board, [one for one in chosen if any(one.value(row) for row in board.rows)])


def render_over_settings(
    boards: Sequence[SelectionBoard] | Sequence[RegretBoard],
    form: BoardFormat = "text",
    *,
    width: int = 80,
    color: bool = False,
    columns: Sequence[BoardColumn] | None = None,
) -> str:
    """Return selection or regret boards in one of the formats; parameters as for `render`."""
    makers = CSV_TABLES if form == "csv" else TABLES
    tables = [makers[type(board)](board, columns) for board in boards]
    return render_tables(tables, form, width=width, color=color, whole=columns is not None)


def render_sweeps(
    sweeps: Sequence[ParameterSweep],
    form: BoardFormat = "text",
    *,
    width: int = 80,
    color: bool = False,
    columns: Sequence[BoardColumn] | None = None,
) -> str:
    """Return sweeps in one of the formats; parameters as for `render`."""
    if form == "csv":
        lines = ((board, sweep.parameter) for sweep in sweeps for board in sweep.boards)
        return render_csv(sweep_csv_table(board, name, columns) for board, name in lines)
    tied = STAR if form == "text" else BOLD
    tables = [sweep_table(sweep, columns, tied=tied) for sweep in sweeps]
    return render_tables(tables, form, width=width, color=color, whole=columns is not None)


def render_tables(
    tables: Iterable[Table],
    form: BoardFormat,
    *,
    width: int = 80,
    color: bool = False,
    whole: bool = False,
) -> str:
    """Return the tables in one of the formats, a blank line between them.

    Parameters
    ----------
    tables : what to show.
    form, width, color : as for `render`.
    whole : a terminal shows all columns, in lines that are longer than it if need be.
    """
    if form == "csv":
        return render_csv(tables)
    if form == "markdown":
        return "\n".join(map(render_markdown, tables))
    if form == "latex":
        return "\n".join(map(render_latex, tables))
    separate = _shared_notes_last(list(tables))
    return "\n".join(render_text(one, width=width, color=color, whole=whole) for one in separate)


def _shared_notes_last(tables: Sequence[Table]) -> list[Table]:
    """Move the notes that several tables share to the end, each once."""
    counts = Counter(note for table in tables for note in dict.fromkeys(table.notes))
    shared = [note for note, count in counts.items() if count > 1]
    if not shared:
        return list(tables)
    kept = [
        replace(table, notes=tuple(note for note in table.notes if note not in shared))
        for table in tables
    ]
    return [*kept, Table(columns=(), rows=(), notes=tuple(shared))]
