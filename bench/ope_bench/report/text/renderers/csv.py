"""Tables as CSV: a line a row, every number in full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from ope_bench.canonical import canonical_json, plain
from ope_bench.printable import without_formula
from ope_bench.report.text.table import Table

__all__ = ["render_csv"]


def render_csv(tables: Iterable[Table]) -> str:
    """Return tables of the same columns under one header.

    Lists and mappings are JSON, null for a number that is not finite; a missing value is empty.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header: list[str] = []
    for table in tables:
        if table.rows and not header:
            header = [column.key for column in table.columns]
            writer.writerow(header)
        writer.writerows([_plain(cell.value) for cell in row] for row in table.rows)
    return stream.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        return canonical_json(plain(value))
    if isinstance(value, str):
        return without_formula(value)
    return repr(value) if isinstance(value, float) else value
