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
        # A run that was killed has no end; the next one went on with its trials.
        ended = [part for part in parts if part["finished"] is not None]
        minutes = sum(part["finished"] - part["started"] for part in ended) / 60
        machine = parts[-1]["machine"]
        rows.append(
            [
                f"`{parts[-1]['suite']}`",
                f"{told['records']:,}",
                f"{'at least ' if len(ended) < len(parts) else ''}{minutes:.1f}",
                f"{machine['cores']} x {machine['cpu']}",
                (machine["git"] or {}).get("revision", "none")[:7],
            ]
        )
    return [
        ["suite", "trials", "minutes", "cores", "revision"],
        ["---", "---:", "---:", "---", "---"],
        *rows,
    ]
