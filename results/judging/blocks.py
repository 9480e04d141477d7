"""Marked blocks of Markdown files, filled from committed boards.

    <!-- board paper/failures n_actions: epws, ipw-star on_missing=fail -->
    <!-- end -->

becomes a table of RMSE by that parameter, from ``leaderboard.json`` of the folder.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["filled"]

_BLOCK = re.compile(r"(<!-- board (\S+) (\S+): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(path: Path, results: Path) -> str:
    """The file's text with every block made anew.

    Parameters
    ----------
    path : a Markdown file.
    results : the folder results/.
    """

    def made(found: re.Match[str]) -> str:
        opening, folder, axis, names, closing = found.groups()
        return f"{opening}{_board(results / folder, axis, names.split(', '))}{closing}"

    return _BLOCK.sub(made, path.read_text(encoding="utf-8"))


def _board(folder: Path, axis: str, names: list[str]) -> str:
    boards = json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["boards"]
    by_setting = {
        board["environment_params"][axis]: {row["label"]: row for row in board["rows"]}
        for board in boards
    }
    settings = sorted(by_setting)
    table = [
        [f"RMSE by {axis}", *(f"{setting:,}" for setting in settings)],
        ["---", *("---:" for _ in settings)],
        *([f"`{name}`", *(_cell(by_setting[s][name]) for s in settings)] for name in names),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _cell(row: dict[str, Any]) -> str:
    failed = row["failure_rate"]
    if row["rmse"] is None:
        return "all fail"
    figure = f"**{row['rmse']:.3g}**" if row["tied"] else f"{row['rmse']:.3g}"
    return f"{figure}, {failed:.0%} fail" if failed else figure
