"""Boards as Markdown tables; what cannot be told from the best is bold."""

from __future__ import annotations

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

__all__ = ["escaped", "render_markdown"]


def render_markdown(boards: Iterable[Board]) -> str:
    """One heading, table and list of notes a board."""
    kept = list(boards)
    parts = [_board(board) for board in kept]
    if len(kept) >= FEWEST_SETTINGS:
        parts += [_summary(summary) for summary in summaries(kept)]
    return "\n".join(parts)


def _summary(summary: Across) -> str:
    header, rows = summary_cells(summary)
    lines = [f"### {escaped(summary_title(summary))}", "", "| " + " | ".join(header) + " |"]
    lines.append("| --- |" + " ---: |" * (len(header) - 1))
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    lines += ["", *(f"- {escaped(note)}" for note in summary_notes(summary))]
    return "\n".join(lines) + "\n"


def _board(board: Board) -> str:
    lines = [f"### {escaped(board_title(board))}", ""]
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
    lines += [f"- {escaped(note)}" for note in notes(board)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    for letter in "\\|*_`<>[]":
        text = text.replace(letter, f"\\{letter}")
    return text.replace("\n", " ")
