"""Tables of rows that columns read: boards, summaries over settings, choices among policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ope_bench.boards.columns.built_in import COLUMNS
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.report.text.formats import MISSING, value_text
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["column_table", "row_name"]


def column_table(
    title: str,
    columns: Iterable[BoardColumn],
    rows: Sequence[Any],
    *,
    board: Any = None,
    notes: Iterable[str] = (),
) -> Table:
    """Make the table of what columns read from rows.

    Parameters
    ----------
    title, notes : of the table.
    columns : what to show, in this order.
    rows : what the columns read from.
    board : what those columns read from whose values are the same for all rows.
    """
    chosen = list(columns)
    return Table(
        title=title,
        columns=tuple(_heading(column) for column in chosen),
        rows=tuple(tuple(_cell(column, row, board) for column in chosen) for row in rows),
        notes=tuple(notes),
    )


def _heading(column: BoardColumn) -> TableColumn:
    return TableColumn(
        key=column.key,
        title=column.title,
        right=column.numeric,
        overflow="cut" if column.format == "estimator" else "",
        drop=column.drop,
    )


def _cell(column: BoardColumn, row: Any, board: Any) -> Cell:
    value = column.value(board if column.of_board else row)
    text = value_text(row_name(row) if column.format == "estimator" else value, column.format)
    mark = column.mark
    if mark and text != MISSING and COLUMNS[mark.flag].value(row):
        text += mark.sign
    return Cell(text, value, column.style(row) if column.style else "")


def row_name(row: Any) -> str:
    """Return the label of a row, with the device where it is not the usual one."""
    return str(row.label) if row.device == "cpu" else f"{row.label} ({row.device})"
