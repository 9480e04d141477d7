"""Table of estimators by settings, for example along a parameter of the environment."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ope_bench.boards.board import Board, Row
from ope_bench.boards.columns.column import Style
from ope_bench.report.text.formats import MISSING, figure
from ope_bench.report.text.renderers.terminal import fit, render_text
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["labels_by_score", "marks_of", "overview_table", "render_overview", "score_cell"]

HEAVY, FAILS = "~", "!"


def render_overview(boards: Sequence[Board], *, width: int = 80) -> str:
    """Return the score of every estimator in every setting, as many settings as the width allows.

    ``~`` marks a heavy-tailed row, whose RMSE may not be repeated by another seed; ``!`` the share
    of trials that failed, which the score counts at the logging average's error.

    Parameters
    ----------
    boards : by RMSE, one a setting.
    width : columns of the terminal.
    """
    table = overview_table(boards)
    fitted = fit(table, width)
    notes = [*marks_of(fitted)]
    left_out = len(table.columns) - len(fitted.columns)
    if left_out:
        notes.append(f"and {left_out} more setting{'' if left_out == 1 else 's'}")
    return render_text(replace(fitted, notes=tuple(notes)), width=width).rstrip()


def marks_of(table: Table) -> Iterator[str]:
    """Yield the explanations of the marks in a table."""
    texts = "".join(cell.text for row in table.rows for cell in row[1:])
    if HEAVY in texts:
        yield f"{HEAVY} heavy-tailed: compare median errors in the boards"
    if FAILS in texts:
        yield f"{FAILS} share of trials that failed, counted at the logging average's error"


def overview_table(boards: Sequence[Board]) -> Table:
    """Make the table of estimators by settings; narrow terminals lose the last settings first.

    Its notes explain its marks.
    """
    settings = [{row.label: row for row in board.rows} for board in boards]
    labels = labels_by_score(settings)
    title, heads = _heads(boards)
    columns = [
        TableColumn(key=board.label, title=head, drop=-index)
        for index, (board, head) in enumerate(zip(boards, heads, strict=True))
    ]
    table = Table(
        columns=(TableColumn(key="estimator", title=title, right=False, overflow="cut"), *columns),
        rows=tuple(
            (Cell(label, label), *(score_cell(rows.get(label)) for rows in settings))
            for label in labels
        ),
    )
    return replace(table, notes=tuple(marks_of(table)))


def _heads(boards: Sequence[Board]) -> tuple[str, list[str]]:
    """Return a title, and what tells the settings apart, as short as it can be said."""
    labels = [board.label for board in boards]
    if len({board.environment for board in boards}) > 1:
        return "RMSE", labels
    name = boards[0].environment
    heads = [label.removeprefix(name).strip() or "default" for label in labels]
    parameters = {head.partition("=")[0] for head in heads}
    if len(parameters) == 1 and all(head.count("=") == 1 for head in heads):
        return f"RMSE by {parameters.pop()}", [head.partition("=")[2] for head in heads]
    return "RMSE", heads


def labels_by_score(settings: Sequence[Mapping[str, Row]]) -> list[str]:
    """Return the labels of all settings' rows, the smallest typical score first.

    Parameters
    ----------
    settings : rows by label of each setting.
    """
    labels = list(dict.fromkeys(label for rows in settings for label in rows))
    return sorted(labels, key=lambda label: _typical([rows.get(label) for rows in settings]))


def score_cell(row: Row | None, *, emphasis: bool = False) -> Cell:
    """Make the cell of a row's score, with marks.

    Parameters
    ----------
    row : None where the estimator did not run.
    emphasis : whether scores that do not differ significantly from the best are emphasized.
    """
    style: Style = "best" if emphasis and row is not None and row.tied else ""
    if row is None:
        return Cell("")
    rate = row.failure.value or 0.0
    if row.score is None or not row.finite:
        return Cell(f"{FAILS}{rate:.0%}" if rate else MISSING)
    text = figure(row.score) + (HEAVY if row.heavy_tailed else "")
    return Cell(f"{text} {FAILS}{rate:.0%}" if rate else text, row.score, style)


def _typical(rows: Sequence[Row | None]) -> float:
    """Return the geometric mean of the scores: no setting's unit outweighs another's."""
    scores = [row.score for row in rows if row is not None and row.score is not None]
    if not scores:
        return math.inf
    return sum(math.log(max(score, 1e-300)) for score in scores) / len(scores)
