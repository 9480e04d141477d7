"""Boards as LaTeX tables (booktabs); what cannot be told from the best is bold."""

from __future__ import annotations

from collections.abc import Iterable

from ope_bench.leaderboard import Board
from ope_bench.report.columns import board_title, columns, notes

__all__ = ["latex_escaped", "render_latex"]

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{DAGGER}": r"\dag{}",
    "\N{DOUBLE DAGGER}": r"\ddag{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def render_latex(boards: Iterable[Board]) -> str:
    """One ``table`` a board; the document needs ``\\usepackage{booktabs}``."""
    return "\n".join(_board(board) for board in boards)


def _board(board: Board) -> str:
    chosen = columns(board)
    lines = [
        r"\begin{table}",
        rf"  \caption{{{latex_escaped(board_title(board).replace(' | ', ', '))}. "
        + " ".join(f"{latex_escaped(note[0].upper() + note[1:])}." for note in notes(board))
        + "}",
        r"  \centering",
        rf"  \begin{{tabular}}{{{''.join('r' if one.number else 'l' for one in chosen)}}}",
        r"    \toprule",
        "    " + " & ".join(latex_escaped(one.header) for one in chosen) + r" \\",
        r"    \midrule",
    ]
    for row in board.rows:
        cells = [latex_escaped(one.cell(row)) for one in chosen]
        if board.by == "rmse" and row.tied:
            cells[1] = rf"\textbf{{{cells[1]}}}"
            cells[2] = rf"\textbf{{{cells[2]}}}"
        lines.append("    " + " & ".join(cells) + r" \\")
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def latex_escaped(text: str) -> str:
    """Text that LaTeX shows as it is."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)
