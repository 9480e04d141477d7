"""What ``ope-bench show`` knows of a plugin or a suite, as data and as a page."""

from __future__ import annotations

import importlib.util
import inspect
import re
import textwrap
from typing import Any

from ope_bench.errors import PluginError, UsageError

__all__ = ["describe_plugin", "describe_suite", "page"]

Facts = dict[str, Any]


def describe_plugin(reference: str) -> list[Facts]:
    """The environments and estimators of that name.

    Raises
    ------
    PluginError : it is broken or ambiguous.
    """
    from ope_bench.registry import GROUPS, registry

    found = []
    in_file = reference.rpartition(":")[0].endswith(".py")
    for kind in GROUPS:
        known = registry().plugins(kind)
        if not in_file and reference not in {n for p in known for n in (p.id, p.reference)}:
            continue
        try:
            plugin = registry().find(kind, reference)
            found.append(_facts(plugin, plugin.cls))
        except PluginError:
            # A class in a file may be of the other kind; the last attempt gives the message.
            if found or (in_file and kind != list(GROUPS)[-1]):
                continue
            raise
    return found


def _facts(plugin: Any, cls: type) -> Facts:
    from ope_bench.parameters import describe

    parameters = describe(cls)
    facts: Facts = {
        "kind": plugin.kind,
        "id": plugin.id,
        "reference": plugin.reference,
        "origin": plugin.origin,
        "target": plugin.target,
        "source": inspect.getsourcefile(cls),
        "summary": plugin.summary,
        "docstring": inspect.getdoc(cls) or "",
        "parameters": parameters,
    }
    # At its defaults; a plugin with required parameters does not say.
    try:
        instance: Any = cls()
    except Exception:
        instance = None
    if plugin.kind == "estimator":
        facts["access"] = instance.access.words() if instance is not None else None
        facts["devices"] = list(instance.devices) if instance is not None else None
    else:
        facts["version"] = getattr(cls, "version", 1)
        facts["data"] = instance.origin_note if instance is not None else ""
        facts["parameters"] = [
            *parameters,
            {"name": "worlds", "type": "'redrawn' | 'fixed'", "default": "'redrawn'"},
        ]
    facts["requires"] = list(instance.requires) if instance is not None else None
    return facts


def describe_suite(name: str) -> list[Facts]:
    """The suite of that name and what it would run, none if there is none.

    Raises
    ------
    UsageError : it is wrong or ambiguous.
    """
    from ope_bench.catalogue import find_suite, suite_files
    from ope_bench.manifest import plan

    known = {word for one in suite_files() for word in (one.id, one.reference)}
    if name not in known and not name.endswith((".yaml", ".yml")):
        return []
    suite = find_suite(name)
    facts: Facts = {
        "kind": "suite",
        "id": suite.name,
        "title": suite.title,
        "truth": suite.truth,
        "replicates": suite.replicates,
        "seed": suite.seed,
        "devices": list(suite.devices),
        "timeout_seconds": suite.timeout,
        "memory_bytes": suite.memory,
        "timing": suite.timing,
    }
    try:
        manifest = plan(suite)
    except UsageError as exc:
        return [facts | {"broken": str(exc)}]
    cells = manifest.cells
    for part in ("environment", "estimator"):
        specs = {id(spec): spec for spec in (getattr(cell, part) for cell in cells)}
        facts[f"{part}s"] = [_named(spec) for spec in specs.values()]
    return [facts | {"cells": len(cells), "trials": len(cells) * suite.replicates, "broken": None}]


def _named(spec: Any) -> str:
    from ope_bench.resolve import selector_of

    return selector_of(spec) + (f' as "{spec.label}"' if spec.label else "")


def page(facts: Facts, columns: int) -> str:
    """The facts for reading."""
    return _suite_page(facts, columns) if facts["kind"] == "suite" else _page(facts, columns)


def _page(facts: Facts, columns: int) -> str:
    from ope_bench.requirements import pip_line

    lines = [f"{facts['id']}  ({facts['kind']}, {facts['origin']})", ""]
    lines += _reflowed(facts["docstring"], columns)
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
        lines.append(f"access    {_words(facts['access'])}")
        lines.append(f"devices   {_words(facts['devices'])}")
    else:
        lines.append(f"version   {facts['version']}")
        if facts["data"]:
            lines += textwrap.wrap(
                f"data      {facts['data']}", columns, subsequent_indent=" " * 10
            )
    if facts["requires"]:
        lines.append(f"requires  {', '.join(dict.fromkeys(facts['requires']))}")
        missing = [module for module in facts["requires"] if not _installed(module)]
        lines += sorted({f"          missing: {pip_line(module)}" for module in missing})
    lines.append(f"source    {facts['source']}")
    return "\n".join(lines)


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _words(known: list[str] | None) -> str:
    return "depends on parameters" if known is None else ", ".join(known)


def _suite_page(facts: Facts, columns: int) -> str:
    from ope_bench.quantities import format_duration, format_size

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


_TABLE = "\0"  # marks a line of a table, which must not be filled
_STARTS = re.compile(r"\s*(?:[\w, ()*]+ : |[A-Z][\w ]+:|[-*] |>>> |--)")


def _reflowed(docstring: str, columns: int) -> list[str]:
    """A docstring for a terminal: no backticks, paragraphs filled where they are too wide."""
    lines: list[str] = []
    for item in _items(docstring.replace("`", "").splitlines()):
        if all(len(line) <= columns for line in item) or item[0].endswith(_TABLE):
            lines += [line.removesuffix(_TABLE) for line in item]
            continue
        first, rest = _indent(item[0]), _indent(item[-1])
        lines += textwrap.wrap(
            " ".join(line.strip() for line in item),
            columns,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
        )
    return lines


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _items(lines: list[str]) -> list[list[str]]:
    """Groups of lines that belong to one paragraph, parameter or formula."""
    items: list[list[str]] = []
    in_table = False
    for line in lines:
        in_table = bool(line.strip()) and (in_table or line.lstrip().startswith("=="))
        continues = (
            items
            and not in_table
            and line.strip()
            and items[-1][-1].strip()
            and not _STARTS.match(line)
            and not items[-1][-1].startswith("--")
            and (len(items[-1]) == 1 or _indent(line) == _indent(items[-1][-1]))
            and len(_indent(line)) >= len(_indent(items[-1][0]))
        )
        if continues:
            items[-1].append(line)
        else:
            items.append([line + _TABLE if in_table else line])
    return items
