"""The result of a run or of a store as a terminal shows it: sweep, summary, boards, findings."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ope_bench.boards.board import Board
from ope_bench.boards.summary import summaries
from ope_bench.printable import printable
from ope_bench.report.text.boards import summary_table, terminal_table
from ope_bench.report.text.findings import findings
from ope_bench.report.text.overview import render_overview
from ope_bench.report.text.render import FEWEST_SETTINGS, render_tables

__all__ = ["render_result"]


def render_result(
    boards: Sequence[Board], *, width: int = 80, color: bool = False, every_board: bool = False
) -> str:
    """Return the estimators by settings, a summary over settings, boards, and what they show.

    The boards of single settings follow where there is one setting only, or on request.

    Parameters
    ----------
    boards : of any measure and kind of truth.
    width : columns of the terminal.
    color : whether the text may hold escape sequences.
    every_board : whether boards are shown where there are several settings.
    """
    truths = dict.fromkeys(board.truth for board in boards)
    parts = []
    for truth in truths:
        members = [board for board in boards if board.truth == truth]
        if len(truths) > 1:
            parts.append(f"Errors against the {truth} truth")
        parts += _of_one_truth(members, width=width, color=color, every_board=every_board)
    return "\n\n".join(parts)


def _of_one_truth(
    boards: Sequence[Board], *, width: int, color: bool, every_board: bool
) -> list[str]:
    by_rmse = [board for board in boards if board.by == "rmse"]
    parts = [render_overview(by_rmse, width=width)] if len(by_rmse) > 1 else []
    tables = []
    if len(by_rmse) >= FEWEST_SETTINGS:
        tables += [summary_table(summary) for summary in summaries(by_rmse)]
    if len(by_rmse) < 2 or every_board:
        tables += [terminal_table(board) for board in boards]
    if tables:
        parts.append(render_tables(tables, "text", width=width, color=color).rstrip())
    lines = findings(by_rmse)
    if lines:
        parts.append("\n".join(textwrap.fill(printable(line), width) for line in lines))
    return parts
