"""Boards as Markdown tables; what cannot be told from the best is bold."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ope_bench.across import Across, summaries
from ope_bench.leaderboard import Board
from ope_bench.report.columns import (
    board_title,
    columns,
    notes,
    summary_cells,
    summary_notes,
    summary_title,
)
from ope_bench.report.terminal import FEWEST_SETTINGS

__all__ = ["escaped", "prose", "render_markdown"]


def render_markdown(boards: Iterable[Board]) -> str:
    """One heading, table and list of notes a board."""
    kept = list(boards)
    parts = [_board(board) for board in kept]
    if len(kept) >= FEWEST_SETTINGS:
        parts += [_summary(summary) for summary in summaries(kept)]
    return "\n".join(parts)


def _summary(summary: Across) -> str:
    header, rows = summary_cells(summary)
    lines = [f"### {prose(summary_title(summary))}", "", "| " + " | ".join(header) + " |"]
    lines.append("| --- |" + " ---: |" * (len(header) - 1))
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    lines += ["", *(f"- {prose(note)}" for note in summary_notes(summary))]
    return "\n".join(lines) + "\n"


def _board(board: Board) -> str:
    lines = [f"### {prose(board_title(board))}", ""]
    if board.rows:
        chosen = columns(board)
        lines.append("| " + " | ".join(escaped(column.header) for column in chosen) + " |")
        rule = ("---:" if column.number else "---" for column in chosen)
        lines.append("| " + " | ".join(rule) + " |")
        for row in board.rows:
            cells = [escaped(column.cell(row)) for column in chosen]
            if board.by == "rmse" and row.tied:
                cells[1] = f"**{cells[1]}**"
                cells[2] = f"**{cells[2]}**"
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += [f"- {prose(note)}" for note in notes(board)]
    return "\n".join(lines) + "\n"


def prose(text: str) -> str:
    """Text that a heading or an item shows as it is, and that reads well unrendered.

    >>> print(prose("toy n_actions=10 | by rmse"), prose("<b> _x_"))
    toy n_actions=10 | by rmse \\<b\\> \\_x\\_
    """
    for letter in "\\*`<>[]":
        text = text.replace(letter, f"\\{letter}")
    # Inside a word it means nothing.
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text).replace("\n", " ")


def escaped(text: str) -> str:
    """Text that a table's cell shows as it is."""
    return prose(text).replace("|", "\\|")
