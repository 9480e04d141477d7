"""Describe a plugin or a suite for ``ope-bench show``, as data and as text."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

from ope_bench.errors import PluginError, UsageError

__all__ = ["describe_plugin", "describe_suite", "page"]

Facts = dict[str, Any]


def describe_plugin(reference: str) -> list[Facts]:
    """Describe the environments and estimators of that name.

    Raises
    ------
    PluginError : the plugin is broken or the name ambiguous.
    """
    from ope_bench.plugins.registry import registry

    found: list[Facts] = []
    for plugin in registry().named(reference):
        try:
            found.append(_facts(plugin, plugin.cls))
        except PluginError:
            # A plugin of the other kind may have that name and can still be shown.
            if not found:
                raise
    return found


def _facts(plugin: Any, cls: type) -> Facts:
    from ope_bench.contracts.parameters.validation import describe

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
        "as": _referenced(plugin.kind, inspect.getdoc(cls) or ""),
        "parameters": parameters,
    }
    # With default parameters; unknown for a plugin with required ones.
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


def _referenced(kind: Any, docstring: str) -> dict[str, str]:
    """Return what a docstring refers to by "as NAME": that plugin's docstring, by its id.

    Without examples and references, which the plugin's own page has.
    """
    from ope_bench.plugins.registry import registry

    names = dict.fromkeys(re.findall(r"\bas `?([A-Z]\w+)`?(?=[.,;:]|$)", docstring, re.MULTILINE))
    found = {}
    for plugin in registry().plugins(kind):
        if plugin.target.rpartition(":")[2] in names:
            text = inspect.getdoc(plugin.cls) or ""
            found[plugin.id] = re.split(r"\n\n(?:References\n|>>> )", text)[0]
    return found


def describe_suite(name: str) -> list[Facts]:
    """Describe the suite of that name and its plan; an empty list if there is none.

    Raises
    ------
    UsageError : the suite is wrong or the name ambiguous.
    """
    from ope_bench.suites.discovery import find_suite, suite_files, suite_path
    from ope_bench.suites.manifest import plan

    known = {word for one in suite_files() for word in (one.id, one.reference)}
    if name not in known and not name.endswith((".yaml", ".yml")):
        return []
    suite = find_suite(name)
    facts: Facts = {
        "kind": "suite",
        "id": suite.name,
        "title": suite.title,
        "file": str(suite_path(name)),
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
        facts[f"{part}s"] = _entries(list(specs.values()))
    return [facts | {"cells": len(cells), "trials": len(cells) * suite.replicates, "broken": None}]


def _entries(specs: list[Any]) -> list[str]:
    """Return the selectors of settings, with every parameter in which namesakes differ."""
    from ope_bench.canonical import canonical_json
    from ope_bench.suites.selector import differing_params, format_selector, selector_of

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
            cls = _class_of(spec)
            shown = differing_params(spec, cls) | varying
            ordered = {name: shown[name] for name in spec.params if name in shown}
            text = format_selector(text.partition("[")[0], ordered)
        found.append(text + (f' as "{spec.label}"' if spec.label else ""))
    return found


def _class_of(spec: Any) -> type:
    from ope_bench.plugins.registry import registry

    return registry().find(spec.kind, spec.reference).cls


def page(facts: Facts, columns: int) -> str:
    """Format the facts as text."""
    return _suite_page(facts, columns) if facts["kind"] == "suite" else _page(facts, columns)


def _page(facts: Facts, columns: int) -> str:
    from ope_bench.plugins.requirements import is_installed, pip_line

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
        lines.append(f"access    {_join(facts['access'])}")
        lines.append(f"devices   {_join(facts['devices'])}")
    else:
        lines.append(f"version   {facts['version']}")
        if facts["data"]:
            lines += textwrap.wrap(
                f"data      {facts['data']}", columns, subsequent_indent=" " * 10
            )
    if facts["requires"]:
        lines.append(f"requires  {', '.join(dict.fromkeys(facts['requires']))}")
        missing = [module for module in facts["requires"] if not is_installed(module)]
        lines += sorted({f"          missing: {pip_line(module)}" for module in missing})
    lines.append(f"source    {facts['source']}")
    return "\n".join(lines)


def _join(known: list[str] | None) -> str:
    return "depends on parameters" if known is None else ", ".join(known)


def _suite_page(facts: Facts, columns: int) -> str:
    from ope_bench.units import format_duration, format_size

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


_TABLE = "\0"  # marks a line of a table, which is not joined with others
_STARTS = re.compile(r"\s*(?:[\w, ()*]+ : |[A-Z][\w ]+:|[-*] |>>> |--)")


def _reflowed(docstring: str, columns: int) -> list[str]:
    """Format a docstring for a terminal: no backticks, wide paragraphs wrapped."""
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
    """Group lines into paragraphs, parameters and formulas."""
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
