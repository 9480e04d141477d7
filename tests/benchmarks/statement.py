"""Where a page of results says how its figures came about: command, machine, versions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def facts_now() -> dict[str, Any]:
    """The machine and software, the day, and how busy the machine was."""
    from ope_bench.execution.machine import machine_facts

    return {
        "machine": machine_facts(),
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "load": round(os.getloadavg()[0], 1),
    }


def resumed(earlier: dict[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """An earlier call's report gone on with: the revisions that took part are all named."""
    facts = {**earlier["facts"]}
    new = _revision(now["facts"])
    known = facts.get("revisions", [_revision(facts)])
    facts["revisions"] = [*known, new] if new not in known else known
    return {**earlier, "command": now["command"], "facts": facts}


def by_machine(path: Path, report: dict[str, Any]) -> list[dict[str, Any]]:
    """The reports of a page, one a machine: those of other machines, then the new one.

    Parameters
    ----------
    path : of the page's two files, without their endings.
    report : the new one; it replaces an earlier one of the same machine.
    """
    file = path.with_suffix(".json")
    earlier = json.loads(file.read_text())["machines"] if file.exists() else []
    return [one for one in earlier if machine_name(one) != machine_name(report)] + [report]


def machine_name(facts: Mapping[str, Any]) -> str:
    """What tells a machine from another: processor, cores and memory."""
    machine = facts["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {_gib(machine):.0f} GiB"


def _gib(machine: Mapping[str, Any]) -> float:
    return (machine["memory_bytes"] or 0) / 2**30


def _revision(facts: Mapping[str, Any]) -> str:
    return ((facts["machine"]["git"] or {}).get("revision") or "none")[:12]


def statement(command: str, facts: Mapping[str, Any]) -> str:
    """The last section of a page."""
    machine = facts["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    revisions = facts.get("revisions", [_revision(facts)])
    made = f"`{command}`, {facts['day']}, {', '.join(revisions)}, one thread a process."
    where = (
        f"{machine_name(facts)}; "
        f"{machine['platform'].split('-with-')[0]}; Python {machine['python']}, "
        f"{machine['blas']}; {packages}."
    )
    busy = (
        f"Load average when it began: {facts['load']}. Where it is above the number of cores, "
        "others shared the machine: processor times are then the figures to read, and wall "
        "times are too long."
    )
    if facts["load"] > machine["cores"]:
        busy += " Here others did, and times of less than a millisecond are uncertain."
    return "\n".join(["## How it was measured", "", made, "", where, "", busy, ""])


def megabytes(count: float) -> str:
    """Bytes in the unit of the tables."""
    return f"{count / 2**20:,.0f}"
