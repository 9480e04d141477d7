"""What takes all rows of a board together: intervals, scores, ties and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.board import Board, By, Row
from ope_bench.statistics.bootstrap import rmse_intervals
from ope_bench.statistics.paired import compare_rows, holm
from ope_bench.statistics.ranks import shared_ranks
from ope_bench.tally import Cell

__all__ = ["Figures", "compared", "ordered", "reordered"]

TIED_LEVEL = 0.05


@dataclass(frozen=True)
class Figures:
    """What takes all rows of a board together to compute."""

    rmse: float | None
    low: float | None
    high: float | None
    heavy: bool
    score: float | None
    tied: bool


def compared(cells: Sequence[Cell]) -> list[Figures]:
    """The joint figures of a board's rows, in their order."""
    rmse, low, high = (np.full(len(cells), np.nan) for _ in range(3))
    heavy = np.zeros(len(cells), dtype=np.bool_)
    by_size: dict[int, list[int]] = {}
    for index, cell in enumerate(cells):
        by_size.setdefault(len(cell.errors), []).append(index)
    # Rows with equally many errors share their resamples.
    for members in by_size.values():
        found = rmse_intervals(np.stack([cells[index].errors for index in members]))
        rmse[members], heavy[members] = found.rmse, found.heavy_tailed
        low[members], high[members] = found.low, found.high
    score = np.array([_score(cell) for cell in cells])
    tied = _tied(cells, score)
    return [
        Figures(
            _known(rmse[i]),
            _known(low[i]),
            _known(high[i]),
            bool(heavy[i]),
            _known(score[i]),
            tied[i],
        )
        for i in range(len(cells))
    ]


def _score(cell: Cell) -> float:
    """RMSE with imputed failures; NaN where a failure cannot be imputed or nothing was tried."""
    if cell.tried == 0 or len(cell.imputed) < cell.tried:
        return math.nan
    sizes = np.abs(np.fromiter(cell.imputed.values(), np.float64))
    unit = float(sizes.max()) or 1.0
    return unit * float(np.sqrt(np.square(sizes / unit).mean()))


def _tied(cells: Sequence[Cell], score: FloatArray) -> list[bool]:
    ranked = np.flatnonzero(~np.isnan(score))
    tied = [False] * len(cells)
    if not len(ranked):
        return tied
    columns = {key: i for i, key in enumerate({key: None for c in cells for key in c.imputed})}
    errors = np.full((len(ranked), len(columns)), np.nan)
    for row, index in enumerate(ranked.tolist()):
        imputed = cells[index].imputed
        errors[row, [columns[key] for key in imputed]] = list(imputed.values())
    best = int(np.argmin(score[ranked]))
    others = np.arange(len(ranked)) != best
    p = compare_rows(errors, best)
    adjusted = holm(p[others])
    for index, value in zip(ranked[others], adjusted, strict=True):
        tied[index] = bool(value > TIED_LEVEL)
    tied[ranked[best]] = True
    return tied


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def reordered(board: Board, by: By) -> Board:
    """The same figures under another question, without computing any of them again."""
    return replace(board, by=by, rows=tuple(ordered(board.rows, by)))


def ordered(rows: Sequence[Row], by: By) -> list[Row]:
    """Rows with their ranks, best first; those without the figure last, in their own order."""
    measure = {
        "rmse": "score",
        "positivity": "failure_rate",
        "time": "seconds",
        "ratio": "ratio_error",
    }[by]
    values = [getattr(row, measure) for row in rows]
    ranks = shared_ranks(np.array([math.nan if v is None else v for v in values], dtype=float))
    ranked = [
        replace(row, rank=rank)
        for row, rank in zip(rows, ranks, strict=True)
        if rank is not None or by in ("rmse", "positivity")
    ]
    return sorted(ranked, key=lambda row: math.inf if row.rank is None else row.rank)
