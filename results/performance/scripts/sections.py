"""Pages of results whose sections different scripts write."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [list(heads), ["---", *["---:"] * (len(heads) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def made_by() -> str:
    """Command, day, revision, machine and versions, in one paragraph."""
    from ope_bench.execution.machine import machine_facts

    machine = machine_facts()
    words = ["python", *sys.argv]
    revision = ((machine["git"] or {}).get("revision") or "none")[:12]
    packages = ", ".join(f"{name} {machine['packages'][name]}" for name in ("numpy", "scipy"))
    return (
        f"`{shlex.join(words)}`, {time.strftime('%Y-%m-%d', time.gmtime())}, revision {revision}; "
        f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, {packages}. "
        "Counts do not depend on the machine."
    )


def put(page: Path, title: str, heading: str, body: str) -> None:
    """Write a section over the one of that heading, or behind the last."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"# {title}\n"
    section = f"## {heading}\n\n{body.strip()}\n\n{made_by()}\n"
    old = re.compile(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    if old.search(text):
        text = old.sub(lambda _: f"{section}\n", text)
    else:
        text = f"{text.rstrip()}\n\n{section}"
    page.write_text(f"{text.rstrip()}\n", encoding="utf-8")
