"""What is installed: environments, estimators, suites, what is broken, what is ambiguous."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Sequence
from typing import Any

from ope_bench.cli.streams import Format, document, width, write

__all__ = ["Sort", "print_inventory", "quick_list", "rows_of"]

Row = dict[str, Any]


class Sort(enum.StrEnum):
    """What can be listed."""

    ENVIRONMENTS = "environments"
    ESTIMATORS = "estimators"
    SUITES = "suites"


def quick_list(arguments: Sequence[str]) -> bool:
    """Answer a plain ``list [sort] [--format json]`` without the machinery of other verbs.

    Returns
    -------
    Whether it was that plain.
    """
    words = list(arguments)
    output = Format.TEXT
    if words[-2:] == ["--format", "json"]:
        words, output = words[:-2], Format.JSON
    if words and words not in [[sort.value] for sort in Sort]:
        return False
    print_inventory([Sort(word) for word in words] or list(Sort), output)
    return True


def print_inventory(wanted: Sequence[Sort], output: Format) -> None:
    """What there is of these sorts, on stdout."""
    with document(output) as emit:
        found = {one.value: rows_of(one) for one in wanted}
        emit({"schema": 1, **found})
    if output is Format.TEXT:
        for title, rows in found.items():
            _print_rows(title, rows)


def rows_of(sort: Sort) -> list[Row]:
    """All of a sort, what is broken or ambiguous included."""
    return _suites() if sort is Sort.SUITES else _plugins(sort)


def _plugins(sort: Sort) -> list[Row]:
    from ope_bench.errors import PluginError
    from ope_bench.registry import registry

    kind: Any = sort.value.removesuffix("s")
    plugins = registry().plugins(kind)
    ids = [plugin.id for plugin in plugins]
    rows: list[Row] = []
    for plugin in plugins:
        row: Row = {
            "id": plugin.id,
            "reference": plugin.reference,
            "origin": plugin.origin,
            "target": plugin.target,
            "summary": None,
            "ambiguous": ids.count(plugin.id) > 1,
            "broken": None,
        }
        try:
            row["summary"] = plugin.summary
            if kind == "environment":
                row["version"] = getattr(plugin.cls, "version", 1)
        except PluginError as exc:
            cause = exc.__cause__
            row["broken"] = f"{type(cause).__name__}: {cause}" if cause else str(exc)
        rows.append(row)
    return rows


def _suites() -> list[Row]:
    from ope_bench.catalogue import broken_suites, suite_files

    files = suite_files()
    ids = [one.id for one in files]
    rows: list[Row] = [
        {
            "id": one.id,
            "reference": one.reference,
            "origin": one.origin,
            "target": str(one.path),
            "summary": one.title,
            "ambiguous": ids.count(one.id) > 1,
            "broken": None,
        }
        for one in files
    ]
    return rows + [
        {
            "id": one.id,
            "reference": one.id,
            "origin": one.origin,
            "target": None,
            "summary": None,
            "ambiguous": False,
            "broken": one.reason,
        }
        for one in broken_suites()
    ]


def _print_rows(title: str, rows: list[Row]) -> None:
    """One heading an origin, so that 80 columns are left for the summaries."""
    columns = max(width(), 40)
    for origin in dict.fromkeys(row["origin"] for row in rows):
        write(f"{title} ({origin})")
        ours = [row for row in rows if row["origin"] == origin]
        names = [row["reference"] if row["ambiguous"] else row["id"] for row in ours]
        indent = min(max(map(len, names)), 30) + 4
        for row, name in zip(ours, names, strict=True):
            text = row["summary"] or ""
            if row["broken"]:
                text = f"BROKEN: {row['broken']}"
            elif row["ambiguous"]:
                text = f"(ambiguous: use this reference) {text}"
            text = " ".join(text.replace("``", "").split())
            if row["broken"]:
                lines = textwrap.wrap(text, columns - indent)
            else:
                lines = [textwrap.shorten(text, columns - indent, placeholder=" ...")]
            write(f"  {name:<{indent - 2}}" + f"\n{' ' * indent}".join(lines or [""]))
        write("")
    if not rows:
        write(f"{title}: none installed\n")
