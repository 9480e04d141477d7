"""Estimators by settings in one table: what happens as a parameter of the environment grows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ope_bench.leaderboard import Board, Row
from ope_bench.report.columns import figure

__all__ = ["render_overview"]

HEAVY, FAILS = "~", "!"


def render_overview(boards: Sequence[Board], *, width: int = 80) -> str:
    """RMSE of every estimator in every setting, as many settings as the width allows.

    ``~`` marks a heavy-tailed row, whose RMSE may not be repeated by another seed; ``!`` the share
    of trials that failed, of which the RMSE knows nothing.

    Parameters
    ----------
    boards : by RMSE, one a setting.
    width : columns of the terminal.
    """
    labels = list(dict.fromkeys(row.label for board in boards for row in board.rows))
    found = [{row.label: row for row in board.rows} for board in boards]
    labels.sort(key=lambda label: _typical([rows.get(label) for rows in found]))
    cells = [[_cell(rows.get(label)) for rows in found] for label in labels]
    title, heads = _heads(boards)
    first = min(max(map(len, [title, *labels])), max(width // 3, 12))
    sizes = [max(map(len, (head, *column))) for head, column in _columns(heads, cells)]
    shown, room = 0, width - first
    while shown < len(sizes) and room >= sizes[shown] + 2:
        room -= sizes[shown] + 2
        shown += 1
    lines = [_line(title, heads[:shown], first, sizes)]
    lines += [
        _line(label, row[:shown], first, sizes) for label, row in zip(labels, cells, strict=True)
    ]
    marks = "".join(cell for row in cells for cell in row[:shown])
    if HEAVY in marks:
        lines.append(f"  {HEAVY} heavy-tailed: read the median error in the boards")
    if FAILS in marks:
        lines.append(f"  {FAILS} share of trials that failed; the RMSE is over the others")
    if shown < len(heads):
        rest = len(heads) - shown
        lines.append(f"  and {rest} more setting{'' if rest == 1 else 's'}")
    return "\n".join(lines)


def _columns(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[tuple[str, list[str]]]:
    return [(head, [row[i] for row in cells]) for i, head in enumerate(heads)]


def _heads(boards: Sequence[Board]) -> tuple[str, list[str]]:
    """A title, and what tells the settings apart, as short as it can be said."""
    labels = [board.label for board in boards]
    if len({board.environment for board in boards}) > 1:
        return "RMSE", labels
    name = boards[0].environment
    heads = [label.removeprefix(name).strip() or "default" for label in labels]
    parameters = {head.partition("=")[0] for head in heads}
    if len(parameters) == 1 and all(head.count("=") == 1 for head in heads):
        return f"RMSE by {parameters.pop()}", [head.partition("=")[2] for head in heads]
    return "RMSE", heads


def _line(label: str, cells: Sequence[str], first: int, sizes: Sequence[int]) -> str:
    cut = label if len(label) <= first else label[: first - 1] + "…"
    columns = "".join(f"  {cell:>{size}}" for cell, size in zip(cells, sizes, strict=False))
    return f"{cut:<{first}}{columns}".rstrip()


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    rate = row.failure_rate or 0.0
    if row.rmse is None:
        return f"{FAILS}{rate:.0%}" if rate else "-"
    text = figure(row.rmse) + (HEAVY if row.heavy_tailed else "")
    return f"{text} {FAILS}{rate:.0%}" if rate else text


def _typical(rows: Sequence[Row | None]) -> float:
    """Geometric mean of the scores: no setting's unit outweighs another's."""
    scores = [row.score for row in rows if row is not None and row.score is not None]
    if not scores:
        return math.inf
    return sum(math.log(max(score, 1e-300)) for score in scores) / len(scores)
