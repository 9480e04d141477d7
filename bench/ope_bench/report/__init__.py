"""Boards as people read them: terminal, Markdown, LaTeX, CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ope_bench.leaderboard import Board

__all__ = ["BoardFormat", "render"]

BoardFormat = Literal["text", "markdown", "latex", "csv"]


def render(
    boards: Sequence[Board],
    form: BoardFormat = "text",
    *,
    width: int = 80,
    colour: bool = False,
) -> str:
    """The boards in one of the formats.

    Parameters
    ----------
    boards : what to show.
    form : ``text`` for a terminal, ``markdown``, ``latex`` or ``csv``.
    width : columns of the terminal.
    colour : whether text may hold escape sequences.
    """
    if form == "markdown":
        from ope_bench.report.markdown import render_markdown

        return render_markdown(boards)
    if form == "latex":
        from ope_bench.report.latex import render_latex

        return render_latex(boards)
    if form == "csv":
        from ope_bench.report.csv import render_csv

        return render_csv(boards)
    from ope_bench.report.terminal import render_text

    return render_text(boards, width=width, colour=colour)
