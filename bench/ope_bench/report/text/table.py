"""A table model, independent of output formats.

tabulate and pandas write tables too, but know neither explanations of columns nor which of them a
narrow terminal drops.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from ope_bench.boards.columns.column import Style
from ope_bench.printable import printable

__all__ = ["Cell", "Table", "TableColumn"]


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """One column of a table.

    Parameters
    ----------
    key : its name in CSV and JSON.
    title : its heading.
    right : aligned right, as numbers are.
    code : Markdown and LaTeX show it as program text.
    overflow : what a terminal may do with a long text: ``cut`` it or ``fold`` it into lines.
        Without either it is always shown whole: half a number would be wrong.
    drop : narrow terminals leave columns out, small numbers first; None is never left out.
    """

    key: str
    title: str
    right: bool = True
    code: bool = False
    overflow: Literal["", "cut", "fold"] = ""
    drop: int | None = None


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Parameters
    ----------
    text : for people.
    value : for programs.
    style : what it means to the reader.
    """

    text: str
    value: Any = None
    style: Style = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings, cells, and what a reader must know to read them.

    Parameters
    ----------
    title : in parts, separated by " | ".
    """

    title: str = ""
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", printable(self.title))
        object.__setattr__(self, "notes", tuple(map(printable, self.notes)))

    def as_json(self) -> dict[str, Any]:
        """Return the table as plain JSON."""
        keys = [column.key for column in self.columns]
        return {
            "title": self.title,
            "columns": [{"key": one.key, "title": one.title} for one in self.columns],
            "rows": [
                {key: cell.value for key, cell in zip(keys, row, strict=True)} for row in self.rows
            ],
            "notes": list(self.notes),
        }

    def without(self, keys: Collection[str]) -> Table:
        """Return the table without these columns."""
        kept = [index for index, one in enumerate(self.columns) if one.key not in keys]
        return replace(
            self,
            columns=tuple(self.columns[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in self.rows),
        )
