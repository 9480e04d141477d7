"""Rows of how often the gate closes without cause, and of what it sees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["gate"]

PAGE = "[gate](results/performance/gate.md)"

GROWTH, REPLICATES = 0.3, 100
CORRELATIONS = (0.0, 0.9, 0.99)


def gate(performance: Path) -> list[list[str]]:
    """False alarms and power of the gate: the table's cells.

    Parameters
    ----------
    performance : the folder results/performance.
    """
    told = json.loads((performance / "gate.json").read_text(encoding="utf-8"))
    alarms, power = told["false_alarms"], told["power"]
    same, cells = alarms["same_seeds"], alarms["cells"]
    paired = [one for one in cells if one["correlation"] is not None]
    fresh = [one for one in cells if one["correlation"] is None]
    rows_a_gate = alarms["rows_a_gate"]
    where = f"{rows_a_gate} rows that all grew by the margin"
    shown = ", ".join(f"{one:g}" for one in CORRELATIONS)
    changed = (
        f"{GROWTH:.0%} larger, {REPLICATES} replicates, one of {rows_a_gate} changed rows; "
        f"correlation {shown}"
    )
    return [
        ["", "gates that close, or rows called worse", "page"],
        ["---", "---", "---"],
        [
            "unchanged code, the same seeds",
            f"{same['closed']} of {same['gates']} gates",
            PAGE,
        ],
        [f"{where}, same data", _closed(paired, rows_a_gate), "the same"],
        [f"{where}, fresh data", _closed(fresh, rows_a_gate), "the same"],
        *(
            [f"{errors} errors {changed}", _seen(power["cells"], errors), "the same"]
            for errors in ("normal", "lognormal")
        ),
    ]


def _closed(cells: Sequence[dict[str, Any]], rows_a_gate: int) -> str:
    """The share of gates that close, were all rows like these taken together."""
    rows, alarms = (sum(one[name] for one in cells) for name in ("rows", "either"))
    return f"{1 - (1 - alarms / rows) ** rows_a_gate:.1%} of gates"


def _seen(cells: Sequence[dict[str, Any]], errors: str) -> str:
    found = {
        one["correlation"]: one
        for one in cells
        if (one["growth"], one["errors"], one["replicates"]) == (GROWTH, errors, REPLICATES)
    }
    both, alone = (
        ", ".join(f"{found[one][name]:.0%}" for one in CORRELATIONS)
        for name in ("gate", "mean_square_alone")
    )
    return f"{both} of rows (by the mean square alone {alone})"
