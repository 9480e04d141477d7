"""Environments, estimators and suites, as data and as text."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, Literal, get_args

from ope_bench.base.canonical import canonical_json
from ope_bench.base.console import Format, json_stdout, width, write
from ope_bench.base.errors import PluginError, UsageError
from ope_bench.base.units import format_duration, format_size
from ope_bench.plugins.registry import registry
from ope_bench.plugins.requirements import is_installed, pip_line
from ope_bench.report import ACCESS_LETTERS, MISSING, access_letters

# Describe a plugin or a suite for ``ope-bench show``, as data and as text.

Facts = dict[str, Any]


def describe_plugin(reference: str) -> list[Facts]:
    """Describe the environments and estimators of that name.

    Raises
    ------
    PluginError : the plugin is broken or the name ambiguous.
    """
    found: list[Facts] = []
    for plugin in registry().named(reference):
        try:
            found.append(_facts(plugin, plugin.cls, reference))
        except PluginError:
            # A plugin of the other kind may have that name and can still be shown.
            if not found:
                raise
    return found


def _facts(plugin: Any, cls: type, reference: str) -> Facts:
    # Here, because `--help` imports this module, and contracts import NumPy.
    from ope_bench.contracts.parameters import describe

    parameters = describe(cls)
    docstring = inspect.cleandoc(cls.__doc__ or "")
    # What the docstring refers to by "as NAME": that plugin's docstring, without examples and
    # references, which its own page has.
    names = re.findall(r"\bas `?([A-Z]\w+)`?(?=[.,;:]|$)", docstring, re.MULTILINE)
    referenced = {
        other.id: re.split(
            r"\n\n(?:References\n|>>> )", inspect.cleandoc(other.cls.__doc__ or "")
        )[0]
        for other in registry().plugins(plugin.kind)
        if other.target.rpartition(":")[2] in names
    }
    names_of = ("kind", "id", "reference", "origin", "target")
    facts: Facts = {name: getattr(plugin, name) for name in names_of}
    facts |= {
        "source": inspect.getsourcefile(cls),
        "summary": plugin.summary,
        "docstring": docstring,
        "as": referenced,
        "parameters": parameters,
    }
    # With default parameters; unknown for a plugin with required ones.
    try:
        instance: Any = cls()
    except Exception:
        instance = None
    if plugin.kind == "estimator":
        facts["aliases"] = registry().aliases_of(plugin.id)
        facts["access"] = instance.access.words() if instance is not None else None
        facts["devices"] = list(instance.devices) if instance is not None else None
    else:
        from ope_bench.suites.suite import format_selector

        # A docstring's own example is Python's; the terminal runs this one as it stands.
        facts["docstring"] = docstring.partition("\n\n>>> ")[0]
        selector = format_selector(reference, getattr(cls, "check_params", {}))
        facts["example"] = f"ope-bench run --est ipws --env {shlex.quote(selector)}"
        facts["version"] = getattr(cls, "version", 1)
        facts["data"] = instance.origin_note if instance is not None else ""
        facts["parameters"] = [
            *parameters,
            {"name": "worlds", "type": "'redrawn' | 'fixed'", "default": "'redrawn'"},
        ]
    facts["requires"] = list(instance.requires) if instance is not None else None
    return facts


def describe_suite(name: str) -> list[Facts]:
    """Describe the suite of that name and its plan; an empty list if there is none.

    Raises
    ------
    UsageError : the suite is wrong or the name ambiguous.
    """
    from ope_bench.suites.manifest import plan
    from ope_bench.suites.suite import find_suite, suite_files, suite_path

    known = {word for one in suite_files() for word in (one.id, one.reference)}
    if name not in known and not name.endswith((".yaml", ".yml")):
        return []
    suite = find_suite(name)
    facts: Facts = {"kind": "suite", "id": suite.name, "file": str(suite_path(name))}
    shown = ("title", "truth", "replicates", "seed", "salt", "devices", "timing")
    facts |= {name: getattr(suite, name) for name in shown}
    facts |= {"timeout_seconds": suite.timeout, "memory_bytes": suite.memory}
    try:
        manifest = plan(suite)
    except UsageError as exc:
        return [facts | {"broken": str(exc)}]
    cells = manifest.cells
    for part in ("environment", "estimator"):
        specs = {id(spec): spec for spec in (getattr(cell, part) for cell in cells)}
        facts[f"{part}s"] = _entries(list(specs.values()))
    return [facts | {"cells": len(cells), "trials": len(cells) * suite.replicates, "broken": None}]


def _entries(specs: list[Any]) -> list[str]:
    """Return the selectors of settings, with every parameter in which namesakes differ."""
    from ope_bench.suites.suite import differing_params, format_selector, selector_of

    found = []
    for spec in specs:
        namesakes = [other.params for other in specs if other.id == spec.id]
        varying = {
            name: value
            for name, value in spec.params.items()
            if any(canonical_json(other.get(name)) != canonical_json(value) for other in namesakes)
        }
        text = selector_of(spec)
        if varying:
            cls = registry().find(spec.kind, spec.reference).cls
            shown = differing_params(spec, cls) | varying
            ordered = {name: shown[name] for name in spec.params if name in shown}
            text = format_selector(text.partition("[")[0], ordered)
        found.append(text + (f' as "{spec.label}"' if spec.label else ""))
    return found


def page(facts: Facts, columns: int) -> str:
    """Format the facts as text."""
    if facts["kind"] == "suite":
        return _suite_page(facts, columns)
    lines = [f"{facts['id']}  ({facts['kind']}, {facts['origin']})", ""]
    lines += _reflowed(facts["docstring"], columns)
    for name, text in facts["as"].items():
        lines += ["", f"{name}:", "", *_reflowed(text, columns)]
    lines += ["", "Accepted parameters" if facts["parameters"] else "No parameters", ""]
    for parameter in facts["parameters"]:
        default = parameter["default"]
        told = "required" if default == "required" else f"default {default}"
        head = f"  {parameter['name']} : {parameter['type']}"
        one_line = f"{head}, {told}"
        if len(one_line) <= columns:
            lines.append(one_line)
        else:
            lines += textwrap.wrap(head, columns, subsequent_indent="      ")
            lines.append(f"      {told}")
    lines.append("")
    if facts["kind"] == "estimator":
        if facts["aliases"]:
            also = ", ".join(facts["aliases"])
            lines += textwrap.wrap(f"also      {also}", columns, subsequent_indent=" " * 10)
        lines.append(f"access    {_join(facts['access'])}")
        lines.append(f"devices   {_join(facts['devices'])}")
    else:
        lines.append(f"version   {facts['version']}")
        if facts["data"]:
            lines += textwrap.wrap(
                f"data      {facts['data']}", columns, subsequent_indent=" " * 10
            )
    if facts["requires"]:
        missing = {pip_line(one) for one in facts["requires"] if not is_installed(one)}
        for text in (
            f"requires  {', '.join(dict.fromkeys(facts['requires']))}",
            *(f"          missing: {line}" for line in sorted(missing)),
        ):
            lines += textwrap.wrap(
                text, columns, subsequent_indent=" " * 10, break_on_hyphens=False
            )
    # Not wrapped: a path is copied.
    lines.append(f"source    {facts['source']}")
    if "example" in facts:
        lines += ["", facts["example"].replace(" --env", " \\\n    --env")]
    return "\n".join(lines)


def _join(known: list[str] | None) -> str:
    return "depends on parameters" if known is None else ", ".join(known)


def _suite_page(facts: Facts, columns: int) -> str:
    lines = [f"{facts['id']}  (suite)", ""]
    if facts["title"]:
        lines += [*textwrap.wrap(facts["title"], columns), ""]
    timing = facts["timing"]
    lanes = "none" if timing is False else "all" if timing is True else f"the first {timing}"
    limits = f"timeout {format_duration(facts['timeout_seconds'])}"
    if facts["memory_bytes"]:
        limits += f", memory {format_size(facts['memory_bytes'])}"
    lines += [
        f"errors against  the {facts['truth']} truth",
        f"replicates      {facts['replicates']} from seed {facts['seed']}",
        f"run alone       {lanes}",
        f"limits          {limits} a trial",
        f"devices         {', '.join(facts['devices'])}",
    ]
    if facts["broken"]:
        return "\n".join([*lines, "", f"BROKEN: {facts['broken']}"])
    lines.append(f"trials          {facts['trials']:,} in {facts['cells']:,} cells")
    lines.append(f"file            {facts['file']}")
    for part in ("environments", "estimators"):
        lines += ["", part]
        lines += [
            line
            for label in facts[part]
            for line in textwrap.wrap(
                label, columns, initial_indent="  ", subsequent_indent="      "
            )
        ]
    return "\n".join(lines)


_START = r"(?:[\w, ()*]+\ :\ |[A-Z][\w\ ]+:|[-*]\ |>>>\ |--|==)"  # of a parameter, formula, table
_ITEM = re.compile(
    rf"""
    ^\ *==.*(?:\n.*\S.*)*  # a table, up to an empty line
    | ^(?P<first>\ *)(?:
        (?<!\ )--.*
        | \S.*(?:
            \n(?P<rest>(?P=first)\ *)(?!{_START})\S.*
            (?:\n(?P=rest)(?!{_START})\S.*)*
        )?
    )
    """,
    re.MULTILINE | re.VERBOSE,
)


def _reflowed(docstring: str, columns: int) -> list[str]:
    """Format a docstring for a terminal: no backticks, wide paragraphs wrapped."""

    def wrapped(item: re.Match[str]) -> str:
        lines = item[0].splitlines()
        if item["first"] is None or max(map(len, lines)) <= columns or ">>> " in lines[0]:
            # Tables are drawn, and code is copied.
            return item[0]
        # The docstring indents what follows a parameter's first line, a formula's or an item's.
        named = item["first"] != "" or re.match(r"[\w, ()*]+ : |[-*] ", item[0]) is not None
        return textwrap.fill(
            " ".join(line.strip() for line in lines),
            columns,
            initial_indent=item["first"],
            subsequent_indent=item["rest"] or item["first"] + " " * 4 * named,
            break_on_hyphens=False,
        )

    tables = re.compile(r"^ *==.*(?:\n.*\S.*)*", re.MULTILINE)
    text = tables.sub(lambda table: _table(table[0], columns), docstring)
    return _ITEM.sub(wrapped, text.replace("`", "")).splitlines()


def _table(text: str, columns: int) -> str:
    """Draw a table of a docstring as the tables of boards are, its wide columns wrapped.

    >>> print(_table("====  ====\\n`id`  reads the log, writes\\n      none\\n====  ====", 20))
    id reads the log,
       writes none
    """
    from ope_bench.report.tables import Cell, TableColumn, TextTable, render_text

    starts = [place.start() for place in re.finditer(r"=+", text.partition("\n")[0])]
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [line[start:end] for start, end in itertools.pairwise([*starts, None])]
        cells = [cell.replace("`", "").strip() for cell in cells]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [" ".join(pair).strip() for pair in zip(rows[-1], cells, strict=True)]
    # Rulers are first, last and below a heading.
    titles = rows[1] if rows[2][0].startswith("==") and len(rows) > 3 else [""] * len(starts)
    kept = [row for row in rows if row is not titles and not row[0].startswith("==")]
    table = TextTable(
        columns=tuple(
            TableColumn(key=f"{place}", title=title, right=False, overflow="fold")
            for place, title in enumerate(titles)
        ),
        rows=tuple(tuple(map(Cell, row)) for row in kept),
    )
    drawn = render_text(table, width=columns - starts[0]).strip("\n")
    return textwrap.indent(drawn, " " * starts[0])


# List what is installed: environments, estimators and suites, also broken or ambiguous ones.

Row = dict[str, Any]

DEPENDS = "?"
"""Mark, in brackets, of needs that depend on the estimator's parameters."""


Kind = Literal["environments", "estimators", "suites"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def print_inventory(
    kinds: Sequence[Kind], output: Format = Format.TEXT, *, ids: bool = False
) -> None:
    """Print all of the given kinds, or their ids alone, those of estimators by access."""
    with json_stdout(output) as emit:
        found = {kind: rows_of(kind) for kind in kinds}
        emit({"schema": 1, **found})
    if output is Format.TEXT:
        if not ids and any(row.get("access") for rows in found.values() for row in rows):
            _print_legend()
        for title, rows in found.items():
            (_print_ids if ids else _print_rows)(title, rows)


def _print_ids(title: str, rows: list[Row]) -> None:
    groups: dict[str, list[str]] = {}
    for row in rows:
        head = title
        if "access" in row:
            words = row["access"] or ["access depends on parameters"]
            head += f" ({', '.join(words).replace('_', ' ')})"
        groups.setdefault(head, []).append(row["reference" if row["ambiguous"] else "id"])
    for head, names in sorted(groups.items()):
        lines = textwrap.wrap(" ".join(names), width() - 2, break_on_hyphens=False)
        write("\n  ".join([head, *lines]))


def rows_of(kind: Kind) -> list[Row]:
    """Return all of a kind, also broken and ambiguous ones."""
    from ope_bench.suites.suite import broken_suites, suite_files

    registered: Any = kind.removesuffix("s")
    known: Any = suite_files() if kind == "suites" else registry().plugins(registered)
    ids = [one.id for one in known]

    def row_of(one: Any, **facts: Any) -> Row:
        row: Row = {"target": None, "summary": None, "ambiguous": ids.count(one.id) > 1}
        row |= {"broken": None, "id": one.id, "reference": getattr(one, "reference", one.id)}
        return row | {"origin": one.origin} | facts

    if kind == "suites":
        rows = [row_of(one, target=str(one.path), summary=one.title) for one in known]
        return rows + [row_of(one, broken=one.reason) for one in broken_suites()]
    from ope_bench.contracts.plugins import Estimator

    rows = []
    for plugin in known:
        row = row_of(plugin, target=plugin.target, group=None)
        try:
            row["summary"] = plugin.summary
            cls: Any = plugin.cls
            # The first line of a package's docstring says what its classes are about.
            package = sys.modules.get(cls.__module__.rpartition(".")[0])
            lines = (getattr(package, "__doc__", None) or "").strip().splitlines()
            row["group"] = lines[0].rstrip(".:") if lines else None
            if registered == "estimator":
                row["aliases"] = registry().aliases_of(plugin.id)
                row["access"] = None
                # With default parameters; a plugin's constructor or property may raise anything.
                # Of one that runs others it depends on these; to resolve them imports pydantic.
                with contextlib.suppress(Exception):
                    if cls.nested is Estimator.nested:
                        row["access"] = cls().access.words()
            else:
                row["version"] = getattr(cls, "version", 1)
        except PluginError as exc:
            cause = exc.__cause__
            row["broken"] = f"{type(cause).__name__}: {cause}" if cause else str(exc)
        rows.append(row)
    return rows


def _print_legend() -> None:
    """Print what letters beside estimators mean."""
    letters = ", ".join(
        f"{letter} {word.replace('_', ' ')}"
        for word, letter in ACCESS_LETTERS.items()
        if word != "samples"
    )
    legend = (
        f"In brackets, what an estimator needs beyond samples: {letters}, {DEPENDS} by parameters."
    )
    write(textwrap.fill(legend, max(width(), 40)) + "\n")


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


def _words(row: Row) -> str:
    text = row["summary"] or ""
    if row["broken"]:
        text = f"BROKEN: {row['broken']}"
    elif row["ambiguous"]:
        text = f"(ambiguous: use this reference) {text}"
    if "access" in row and row["access"] is None:
        text += f" [{DEPENDS}]"
    elif row.get("access"):
        letters = access_letters(row["access"])
        text += f" [{letters}]" if letters != MISSING else ""
    if row.get("aliases"):
        text += f" (also {', '.join(row['aliases'])})"
    return " ".join(text.replace("`", "").split())
