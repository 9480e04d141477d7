"""Marked blocks of Markdown files, filled from what is committed below results/.

    <!-- board paper/failures n_actions: epws, ipw-star on_missing=fail -->
    <!-- end -->

becomes a table of scores (RMSE with failures at the logging average's error) by that parameter,
from ``leaderboard.json`` of the folder;
``<!-- runs -->`` one of the committed runs, ``<!-- gate -->`` one of the gate's false alarms and
power, ``<!-- costs harness -->`` and
``<!-- costs obp 10000 1000 -->`` of what is measured in results/performance. Links lead from the
file's own folder.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from judging.costs import beside_obp, harness
from judging.gate import gate
from judging.runs import runs

__all__ = ["filled"]

_BLOCK = re.compile(
    r"(<!-- (board|runs|costs|gate)\b ?([^\n]*?) ?-->\n).*?(<!-- end -->)", re.DOTALL
)


def filled(path: Path, results: Path) -> str:
    """The file's text with every block made anew.

    Parameters
    ----------
    path : a Markdown file.
    results : the folder results/.
    """

    from_page = f"]({os.path.relpath(results, path.parent)}/"

    def made(found: re.Match[str]) -> str:
        opening, kind, words, closing = found.groups()
        table = _table(_cells(kind, words, results)).replace("](results/", from_page)
        return f"{opening}{table}{closing}"

    return _BLOCK.sub(made, path.read_text(encoding="utf-8"))


def _cells(kind: str, words: str, results: Path) -> list[list[str]]:
    if kind == "runs":
        return runs(results)
    if kind == "gate":
        return gate(results / "performance")
    if kind == "costs":
        what, *size = words.split()
        performance = results / "performance"
        return harness(performance) if what == "harness" else beside_obp(performance, *_ints(size))
    where, _, names = words.partition(": ")
    folder, axis = where.split()
    return _board(results / folder, axis, names.split(", "))


def _ints(words: list[str]) -> tuple[int, int]:
    n, n_actions = map(int, words)
    return n, n_actions


def _table(cells: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _board(folder: Path, axis: str, names: list[str]) -> list[list[str]]:
    boards = json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["boards"]
    by_setting = {
        board["environment_params"][axis]: {row["label"]: row for row in board["rows"]}
        for board in boards
    }
    settings = sorted(by_setting)
    return [
        [f"RMSE by {axis}", *(f"{setting:,}" for setting in settings)],
        ["---", *("---:" for _ in settings)],
        *([f"`{name}`", *(_cell(by_setting[s][name]) for s in settings)] for name in names),
    ]


def _cell(row: dict[str, Any]) -> str:
    failed = row["failure_rate"]
    if not row["finite"]:
        return "all fail"
    figure = f"{row['score']:.3g}"
    if row["tied"]:
        figure = f"**{figure}**"
    elif row["tied"] is None and row["rank"]:
        figure = f"{figure}?"
    return f"{figure}, {failed:.0%} fail" if failed else figure
