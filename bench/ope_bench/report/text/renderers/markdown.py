"""Tables in Markdown; rows tied with the best are bold."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["prose", "render_markdown"]


def render_markdown(table: Table) -> str:
    """Return a heading, the table, and a list of its notes."""
    lines = [f"### {prose(table.title)}", ""] if table.title else []
    if table.rows:
        rule = ("---:" if column.right else "---" for column in table.columns)
        lines += [
            _line(_escape(column.title) for column in table.columns),
            _line(rule),
            *(_line(map(_cell, row, table.columns)) for row in table.rows),
            "",
        ]
    lines += [f"- {prose(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell, column: TableColumn) -> str:
    if column.code:
        return f"`{cell.text}`"
    text = _escape(cell.text)
    return f"**{text}**" if cell.style == "best" and text else text


def prose(text: str) -> str:
    """Return text that a heading or an item shows as it is, and that reads well unrendered.

    >>> print(prose("toy n_actions=10 | by rmse"), prose("<b> _x_"))
    toy n_actions=10 | by rmse \\<b\\> \\_x\\_
    """
    for letter in "\\*`<>[]":
        text = text.replace(letter, f"\\{letter}")
    # Inside a word it means nothing.
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text).replace("\n", " ")


def _escape(text: str) -> str:
    return prose(text).replace("|", "\\|")
