"""``ope-bench list`` and ``ope-bench show``: what there is, and what each thing is."""

from __future__ import annotations

import enum
import textwrap
from typing import Annotated, Any

import typer

from ope_bench.cli.output import Format, FormatOption, document, width, write

__all__ = ["Sort", "list_", "rows_of", "show"]

Row = dict[str, Any]


class Sort(enum.StrEnum):
    """What can be listed."""

    ENVIRONMENTS = "environments"
    ESTIMATORS = "estimators"
    SUITES = "suites"


def list_(
    sort: Annotated[Sort | None, typer.Argument(help="Only this; all by default.")] = None,
    output: FormatOption = Format.TEXT,
) -> int:
    """List the environments, estimators and suites that are installed."""
    wanted = list(Sort) if sort is None else [sort]
    with document(output) as emit:
        found = {one.value: rows_of(one) for one in wanted}
        emit({"schema": 1, **found})
    if output is Format.TEXT:
        for title, rows in found.items():
            _print_rows(title, rows)
    return 0


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


def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="An id, a reference or a suite.")],
    output: FormatOption = Format.TEXT,
) -> int:
    """Show an environment, an estimator or a suite: what it does, takes and needs."""
    from ope_bench.cli.description import describe_plugin, describe_suite, page
    from ope_bench.errors import PluginError, UsageError, did_you_mean

    with document(output) as emit:
        found = [*describe_plugin(name), *describe_suite(name)]
        if not found:
            from ope_bench.catalogue import suite_files
            from ope_bench.registry import GROUPS, registry

            known = [plugin.id for kind in GROUPS for plugin in registry().plugins(kind)]
            known += [suite.id for suite in suite_files()]
            hint = did_you_mean(name, known) or "; `ope-bench list` shows what there is"
            msg = f"nothing is called '{name}'{hint}"
            raise (PluginError if ":" in name else UsageError)(msg)
        emit({"schema": 1, **found[0], "others": found[1:]})
    if output is Format.TEXT:
        write("\n\n".join(page(one, min(width(), 100)) for one in found))
    return 0
