"""List what is installed: environments, estimators and suites, also broken or ambiguous ones."""

from __future__ import annotations

import enum
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from ope_bench.console.streams import Format, document, width, write

__all__ = ["Kind", "print_inventory", "quick_list", "rows_of"]

Row = dict[str, Any]

DEPENDS = "?"
"""In brackets, where what an estimator needs depends on its parameters."""


class Kind(enum.StrEnum):
    """Kinds of installed things."""

    ENVIRONMENTS = "environments"
    ESTIMATORS = "estimators"
    SUITES = "suites"


def quick_list(arguments: Sequence[str]) -> bool:
    """Run a plain ``list [kind] [--format json]`` without importing the other commands.

    Returns
    -------
    Whether the command line was of this form.
    """
    words = list(arguments)
    output = Format.TEXT
    if words[-2:] == ["--format", "json"]:
        words, output = words[:-2], Format.JSON
    if words and words not in [[kind.value] for kind in Kind]:
        return False
    print_inventory([Kind(word) for word in words] or list(Kind), output)
    return True


def print_inventory(kinds: Sequence[Kind], output: Format) -> None:
    """Print all of the given kinds."""
    with document(output) as emit:
        found = {one.value: rows_of(one) for one in kinds}
        emit({"schema": 1, **found})
    if output is Format.TEXT:
        for title, rows in found.items():
            _print_rows(title, rows)


def rows_of(kind: Kind) -> list[Row]:
    """Return all of a kind, also broken and ambiguous ones."""
    return _suites() if kind is Kind.SUITES else _plugins(kind)


def _plugins(kind: Kind) -> list[Row]:
    from ope_bench.errors import PluginError
    from ope_bench.plugins.registry import registry

    registered: Any = kind.value.removesuffix("s")
    plugins = registry().plugins(registered)
    ids = [plugin.id for plugin in plugins]
    rows: list[Row] = []
    for plugin in plugins:
        row: Row = {
            "id": plugin.id,
            "reference": plugin.reference,
            "origin": plugin.origin,
            "target": plugin.target,
            "summary": None,
            "group": None,
            "ambiguous": ids.count(plugin.id) > 1,
            "broken": None,
        }
        try:
            row["summary"] = plugin.summary
            row["group"] = _group(plugin.cls)
            if registered == "estimator":
                row["access"] = _access(plugin.cls)
            if registered == "environment":
                row["version"] = getattr(plugin.cls, "version", 1)
        except PluginError as exc:
            cause = exc.__cause__
            row["broken"] = f"{type(cause).__name__}: {cause}" if cause else str(exc)
        rows.append(row)
    return rows


def _group(cls: type) -> str | None:
    """Return what the package of a class is about, in the first line of its docstring."""
    package = sys.modules.get(cls.__module__.rpartition(".")[0])
    lines = (getattr(package, "__doc__", None) or "").strip().splitlines()
    return lines[0].rstrip(".:") if lines else None


def _access(cls: Any) -> list[str] | None:
    """Return what an estimator needs, None where that depends on its parameters."""
    from ope_bench.contracts.access import Access
    from ope_bench.contracts.estimator import Estimator

    # No object is made: that may import what a listing has no time for.
    known = Access.SAMPLES if cls.access is Estimator.access else cls.access
    return known.words() if isinstance(known, Access) else None


def _suites() -> list[Row]:
    from ope_bench.suites.discovery import broken_suites, suite_files

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
    """Print a heading for each origin and for groups of several, and whole summaries."""
    columns = max(width(), 40)
    for origin in dict.fromkeys(row["origin"] for row in rows):
        ours = [row for row in rows if row["origin"] == origin]
        write(f"{len(ours)} {title} ({origin})")
        names = {id(row): row["reference"] if row["ambiguous"] else row["id"] for row in ours}
        indent = min(max(map(len, names.values())), 30) + 4
        groups = dict.fromkeys(row.get("group") for row in ours)
        grouped = 1 < len(groups) < len(ours) / 2
        for group in groups if grouped else (None,):
            if grouped:
                heading = textwrap.wrap(group or "Others", columns - 2)
                write("\n  " + "\n  ".join(heading))
            for row in ours:
                if not grouped or row.get("group") == group:
                    text = textwrap.wrap(_words(row), columns - indent)
                    head = f"  {names[id(row)]:<{indent - 2}}"
                    write(head + f"\n{' ' * indent}".join(text or [""]))
        write("")
    if not rows:
        write(f"{title}: none installed\n")
    elif any(row.get("access") for row in rows):
        from ope_bench.report.text.formats import ACCESS_LETTERS

        letters = ", ".join(
            f"{letter} {word.replace('_', ' ')}"
            for word, letter in ACCESS_LETTERS.items()
            if word != "samples"
        )
        legend = f"needs beyond samples, in brackets: {letters}, {DEPENDS} depends on parameters"
        write("\n".join(textwrap.wrap(legend, columns)))
        write("")


def _words(row: Row) -> str:
    text = row["summary"] or ""
    if row["broken"]:
        text = f"BROKEN: {row['broken']}"
    elif row["ambiguous"]:
        text = f"(ambiguous: use this reference) {text}"
    if "access" in row and row["access"] is None:
        text += f" [{DEPENDS}]"
    elif row.get("access"):
        from ope_bench.report.text.formats import MISSING, access_letters

        letters = access_letters(row["access"])
        text += f" [{letters}]" if letters != MISSING else ""
    return " ".join(text.replace("`", "").split())
