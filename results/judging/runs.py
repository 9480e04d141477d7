"""What each committed run was and how long it took, from its ``run.json``."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["runs"]


def runs(results: Path) -> list[list[str]]:
    """A row for each suite: its trials, minutes, machine and revision.

    Parameters
    ----------
    results : the folder results/.
    """
    rows = []
    for path in sorted(results.glob("**/run.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        parts = told["runs"]
        minutes = sum(part["finished"] - part["started"] for part in parts) / 60
        machine = parts[-1]["machine"]
        rows.append(
            [
                f"`{parts[-1]['suite']}`",
                f"{told['records']:,}",
                f"{minutes:.1f}",
                f"{machine['cores']} x {machine['cpu']}",
                (machine["git"] or {}).get("revision", "none")[:7],
            ]
        )
    return [
        ["suite", "trials", "minutes", "cores", "revision"],
        ["---", "---:", "---:", "---", "---"],
        *rows,
    ]
