"""Tables in HTML, for notebooks and pages: alignment, emphasis and class names, no styles."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from ope_bench.boards.columns.column import Style
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["render_html", "render_rows"]

_CLASSES: Mapping[Style, str] = {
    "good": "fine",
    "best": "fine",
    "caution": "warning",
    "bad": "broken",
}
"""Class names of cells, for pages that have styles for them."""


def render_html(table: Table) -> str:
    """Return title, table and notes; all text is escaped."""
    parts = [f"<p><b>{html.escape(table.title)}</b></p>"] if table.title else []
    if table.rows:
        parts.append(render_rows(table))
    if table.notes:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
        parts.append(f"<ul>{notes}</ul>")
    return "".join(parts)


def render_rows(table: Table) -> str:
    """Return the table without title and notes; all text is escaped."""
    head = _row("th", [Cell(column.title) for column in table.columns], table.columns)
    body = "".join(_row("td", row, table.columns) for row in table.rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Iterable[Cell], columns: Sequence[TableColumn]) -> str:
    row = "".join(
        f"<{tag}{_class(cell, column)} "
        f'style="text-align:{"right" if column.right else "left"}">{_text(cell)}</{tag}>'
        for cell, column in zip(cells, columns, strict=True)
    )
    return f"<tr>{row}</tr>"


def _class(cell: Cell, column: TableColumn) -> str:
    names = [_CLASSES.get(cell.style, ""), "number" if column.right else ""]
    return f' class="{" ".join(filter(None, names))}"' if any(names) else ""


def _text(cell: Cell) -> str:
    text = html.escape(cell.text)
    return f"<b>{text}</b>" if cell.style == "best" and text else text
