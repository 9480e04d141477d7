"""Where a page of results says how its figures came about: command, machine, versions."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
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


def _revision(facts: Mapping[str, Any]) -> str:
    return ((facts["machine"]["git"] or {}).get("revision") or "none")[:12]


def statement(command: str, facts: Mapping[str, Any]) -> str:
    """The last section of a page."""
    machine = facts["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    memory = (machine["memory_bytes"] or 0) / 2**30
    revisions = facts.get("revisions", [_revision(facts)])
    made = f"`{command}`, {facts['day']}, {', '.join(revisions)}, one thread a process."
    where = (
        f"{machine['cpu']}, {machine['cores']} cores, {memory:.0f} GiB; "
        f"{machine['platform'].split('-with-')[0]}; Python {machine['python']}, "
        f"{machine['blas']}; {packages}."
    )
    busy = (
        f"Load average when it began: {facts['load']}. Where it is above the number of cores, "
        "others shared the machine: processor times are then the figures to read, and wall "
        "times are too long."
    )
    return "\n".join(["## How it was measured", "", made, "", where, "", busy, ""])


def megabytes(count: float) -> str:
    """Bytes in the unit of the tables."""
    return f"{count / 2**20:,.0f}"
