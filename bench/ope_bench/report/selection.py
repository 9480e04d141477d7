"""Selection boards in every format."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ope_bench.report import BoardFormat
from ope_bench.report.columns import figure, percent
from ope_bench.report.latex import latex_escaped
from ope_bench.report.markdown import escaped, prose
from ope_bench.report.terminal import without_padding
from ope_bench.selecting import SelectionBoard, SelectionRow

__all__ = ["render_selection"]

HEADER = ("estimator", "regret", "relative", "Spearman", "Kendall", "type I", "type II", "n")
NOTES = (
    "regret: value of the best policy minus that of the one with the best estimate",
    "type I: share of policies worse than the logging policy whose estimate beats its average",
    "type II: share of policies better than the logging policy whose estimate does not",
)


def render_selection(
    boards: Sequence[SelectionBoard], form: BoardFormat = "text", *, width: int = 80
) -> str:
    """The boards in one of the formats."""
    if form == "csv":
        return _csv(boards)
    parts = []
    for board in boards:
        title = f"{board.environment} | choosing among {', '.join(board.policies)}"
        rows = [_cells(row) for row in board.rows]
        if form == "markdown":
            parts.append(_markdown(title, rows))
        elif form == "latex":
            parts.append(_latex(title, rows))
        else:
            parts.append(_text(title, rows, width))
    return "\n".join(parts)


def _cells(row: SelectionRow) -> list[str]:
    return [
        row.label,
        figure(row.regret),
        percent(row.relative_regret),
        figure(row.spearman),
        figure(row.kendall),
        percent(row.type_one),
        percent(row.type_two),
        str(row.replicates),
    ]


def _text(title: str, rows: Sequence[Sequence[str]], width: int) -> str:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    stream = io.StringIO()
    console = Console(
        file=stream, width=width, color_system=None, highlight=False, markup=False, emoji=False
    )
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(HEADER):
        table.add_column(name, justify="right" if place else "left", no_wrap=place > 0)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(Text(title))
    console.print(table)
    for note in NOTES:
        console.print(Padding(Text(note), (0, 0, 0, 2)))
    return without_padding(stream.getvalue())


def _markdown(title: str, rows: Sequence[Sequence[str]]) -> str:
    lines = [f"### {prose(title)}", "", "| " + " | ".join(HEADER) + " |"]
    lines.append("| --- |" + " ---: |" * (len(HEADER) - 1))
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in NOTES)]) + "\n"


def _latex(title: str, rows: Sequence[Sequence[str]]) -> str:
    lines = [r"\begin{table}", rf"  \caption{{{latex_escaped(title.replace(' | ', ', '))}.}}"]
    lines += [r"  \centering", rf"  \begin{{tabular}}{{l{'r' * (len(HEADER) - 1)}}}"]
    lines += [r"    \toprule", "    " + " & ".join(HEADER) + r" \\", r"    \midrule"]
    lines += ["    " + " & ".join(map(latex_escaped, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def _csv(boards: Sequence[SelectionBoard]) -> str:
    lines = [
        {"environment": board.environment, "policies": "; ".join(board.policies)} | told
        for board in boards
        for told in board.as_json()["rows"]
    ]
    stream = io.StringIO()
    if lines:
        writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return stream.getvalue()
