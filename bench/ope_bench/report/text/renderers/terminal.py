"""Tables in a terminal: one line a row, as many columns as fit."""

from __future__ import annotations

import io
from typing import Any

from ope_bench.boards.columns.column import Style
from ope_bench.report.text.table import Table

__all__ = ["fit", "render_text"]

COLORS: dict[Style, str] = {
    "": "",
    "best": "bold green",
    "good": "green",
    "caution": "yellow",
    "bad": "red",
    "changed": "cyan",
    "dim": "dim",
}
SHORTEST_NAME = 12
NAME_SHARE = 0.28
"""Share of the width that long names get before any column that can be left out."""


def render_text(table: Table, *, width: int = 80, color: bool = False, whole: bool = False) -> str:
    """Return the table as a terminal shows it.

    Parameters
    ----------
    table : what to show.
    width : columns of the terminal.
    color : whether the text may hold escape sequences.
    whole : show all columns, in lines that are longer than the terminal if need be.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    fitted = table if whole else fit(table, width)
    names = max(_least_room_for_names(table, width), width - _width_without_names(fitted))
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(width, _width_without_names(fitted) + names) if whole else width,
        force_terminal=color,
        # In a notebook rich would show each line as an output of its own instead of writing it.
        force_jupyter=False,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if table.title:
        console.print(Text(table.title, style="bold"))
    if table.rows:
        console.print(_grid(fitted, names))
    for note in table.notes:
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n"))


def _grid(table: Table, names: int) -> Any:
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
    shown: list[list[str]] = []
    for index, column in enumerate(table.columns):
        cut = column.overflow == "cut"
        grid.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=column.overflow != "fold",
            overflow="fold" if column.overflow == "fold" else "ellipsis",
            max_width=names if cut else None,
            header_style="dim",
        )
        texts = [row[index].text for row in table.rows]
        shown.append(_cut(texts, names) if cut else texts)
    for index, row in enumerate(table.rows):
        cells = zip(row, shown, strict=True)
        grid.add_row(*(Text(texts[index], style=COLORS[cell.style]) for cell, texts in cells))
    return grid


def fit(table: Table, width: int) -> Table:
    """Return the table without the columns that a terminal of this width has no room for."""
    room = _least_room_for_names(table, width)
    expendable = [column for column in table.columns if column.drop is not None]
    for column in sorted(expendable, key=lambda column: column.drop or 0):
        if width - _width_without_names(table) >= room:
            break
        table = table.without({column.key})
    return table


def _least_room_for_names(table: Table, width: int) -> int:
    """Return how much long names get before any column that can be left out."""
    names = [
        len(text)
        for index, column in enumerate(table.columns)
        if column.overflow
        for text in (column.title, *(row[index].text for row in table.rows))
    ]
    return max(SHORTEST_NAME, min(max(names, default=0), int(NAME_SHARE * width)))


def _width_without_names(table: Table) -> int:
    return sum(
        max(len(column.title), *(len(row[index].text) for row in table.rows), 0) + 1
        for index, column in enumerate(table.columns)
        if not column.overflow
    )


def _cut(names: list[str], width: int) -> list[str]:
    """Cut names at the end, or in the middle where only their ends tell them apart."""
    cut = [name if len(name) <= width else f"{name[: width - 1]}…" for name in names]
    head = width // 3
    return [
        f"{name[:head]}…{name[head + 1 - width :]}"
        if len(name) > width and cut.count(short) > 1
        else short
        for name, short in zip(names, cut, strict=True)
    ]
