"""Where a page of results says how its figures came about: command, machine, versions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOINED = "` and `"
"""Between the commands of a page, each of which is code in Markdown."""

MOVED = "tests/benchmarks/", "results/performance/scripts/"
"""Where the scripts lay when older reports were made, and where they lie."""


def facts_now() -> dict[str, Any]:
    """The machine and software, the day, and how busy the machine was."""
    from ope_bench.execution.machine import machine_facts

    return {
        "machine": machine_facts(),
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "load": round(os.getloadavg()[0], 1),
    }


def resumed(path: Path, report: dict[str, Any]) -> dict[str, Any]:
    """Return this machine's earlier report, to go on with; the new one where there is none.

    All commands and revisions that took part are named.

    Parameters
    ----------
    path : of the page's two files, without their endings.
    report : the new one, with nothing measured yet.
    """
    for earlier in _reports(path):
        if machine_name(earlier) == machine_name(report):
            known = earlier.get("revisions", [_revision(earlier)])
            revisions = list(dict.fromkeys([*known, _revision(report)]))
            commands = dict.fromkeys([*_command(earlier).split(JOINED), report["command"]])
            return {**earlier, "command": JOINED.join(commands), "revisions": revisions}
    return report


def keep(path: Path, report: dict[str, Any]) -> list[dict[str, Any]]:
    """Write PATH.json: the reports of other machines, then the new one; return all of them.

    Parameters
    ----------
    path : of the page's two files, without their endings.
    report : the new one; it replaces an earlier one of the same machine.
    """
    others = [one for one in _reports(path) if machine_name(one) != machine_name(report)]
    reports = [*others, report]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps({"machines": reports}, indent=1) + "\n")
    return reports


@dataclass(frozen=True)
class Page:
    """A page of figures with a section for every machine that they were measured on.

    Parameters
    ----------
    intro : title and text in front of the sections.
    tables : the text of one machine's report, whose headings begin with ###.
    outro : text behind the sections.
    """

    intro: str
    tables: Callable[[dict[str, Any]], str]
    outro: str = ""

    def write(self, path: Path, report: dict[str, Any]) -> None:
        """Write PATH.json and PATH.md; the report replaces an earlier one of the same machine."""
        path.with_suffix(".md").write_text(self.text(keep(path, report)))

    def text(self, reports: Sequence[dict[str, Any]]) -> str:
        """Return the page of the reports, one a machine."""
        parts = [self.intro.strip()]
        for report in reports:
            parts.append(f"## {machine_name(report)}, {report['day']}")
            parts += [self.tables(report).strip(), statement(report, level=3).strip()]
        return "\n\n".join([*parts, self.outro.strip()]).strip() + "\n"


def _reports(path: Path) -> list[dict[str, Any]]:
    """Return what PATH.json holds, one report a machine."""
    file = path.with_suffix(".json")
    return list(json.loads(file.read_text())["machines"]) if file.exists() else []


def machine_name(facts: Mapping[str, Any]) -> str:
    """What tells a machine from another: processor, cores and memory."""
    machine = facts["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {_gib(machine):.0f} GiB"


def _gib(machine: Mapping[str, Any]) -> float:
    return (machine["memory_bytes"] or 0) / 2**30


def _revision(facts: Mapping[str, Any]) -> str:
    return ((facts["machine"]["git"] or {}).get("revision") or "none")[:12]


def _command(report: Mapping[str, Any]) -> str:
    """Return the command of a report, with the script's path of today."""
    return str(report["command"]).replace(*MOVED)


def statement(report: Mapping[str, Any], level: int = 2) -> str:
    """Return the section of a page that says how its figures came about.

    Parameters
    ----------
    report : its command and the facts of `facts_now`.
    level : of the heading.
    """
    machine = report["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    revisions = report.get("revisions", [_revision(report)])
    made = f"`{_command(report)}`, {report['day']}, {', '.join(revisions)}, one thread a process."
    where = (
        f"{machine_name(report)}; "
        f"{machine['platform'].split('-with-')[0]}; Python {machine['python']}, "
        f"{machine['blas']}; {packages}."
    )
    busy = (
        f"Load average when it began: {report['load']}. Where it is above the number of cores, "
        "others shared the machine: processor times are then the figures to read, and wall "
        "times are too long."
    )
    if report["load"] > machine["cores"]:
        busy += " Here others did, and times of less than a millisecond are uncertain."
    heading = f"{'#' * level} How it was measured"
    return "\n".join([heading, "", made, "", where, "", busy, ""])


def megabytes(count: float) -> str:
    """Bytes in the unit of the tables."""
    return f"{count / 2**20:,.0f}"
