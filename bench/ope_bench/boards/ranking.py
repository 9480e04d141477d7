"""Compute the statistics that need all rows of a board: intervals, scores, ties and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ope_bench.boards.aggregation import RowStatistics
from ope_bench.boards.board import Board, By, Interval, JointFigures, Row
from ope_bench.boards.columns.built_in import COLUMNS
from ope_bench.boards.columns.emphasis import MOSTLY_FAILED
from ope_bench.boards.columns.layouts import LAYOUTS
from ope_bench.boards.figures import RowFigures
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.bootstrap import rmse_intervals
from ope_bench.statistics.paired import RowComparisons, compare_rows, detectable_growth, holm
from ope_bench.statistics.ranks import shared_ranks

__all__ = ["joint_statistics", "ordered", "reordered"]

TIED_LEVEL = 0.05

RESOLVED = 0.5
"""Largest growth of the score that a comparison may miss if rows are to count as tied."""


def joint_statistics(cells: Sequence[RowStatistics]) -> list[JointFigures]:
    """Compute the joint statistics of a board's rows, in their order."""
    rmse, low, high = (np.full(len(cells), np.nan) for _ in range(3))
    heavy = np.zeros(len(cells), dtype=np.bool_)
    by_size: dict[int, list[int]] = {}
    for index, cell in enumerate(cells):
        by_size.setdefault(len(cell.errors), []).append(index)
    # Rows with equally many errors share one set of resamples.
    for members in by_size.values():
        intervals = rmse_intervals(np.stack([cells[index].errors for index in members]))
        rmse[members], heavy[members] = intervals.rmse, intervals.heavy_tailed
        low[members], high[members] = intervals.low, intervals.high
    score = np.array([_score(cell) for cell in cells])
    ties = _ties(cells, score)
    return [
        JointFigures(
            rmse=Interval(
                value=_finite_or_none(rmse[i]),
                low=_finite_or_none(low[i]),
                high=_finite_or_none(high[i]),
            ),
            heavy_tailed=bool(heavy[i]),
            score=_finite_or_none(score[i]),
            tied=tied,
            detectable=detectable,
        )
        for i, (tied, detectable) in enumerate(ties)
    ]


def _score(cell: RowStatistics) -> float:
    """Return the RMSE with imputed failures; NaN without trials or if imputation is impossible."""
    if cell.tried == 0 or len(cell.imputed) < cell.tried:
        return math.nan
    sizes = np.abs(np.fromiter(cell.imputed.values(), np.float64))
    unit = float(sizes.max()) or 1.0
    return unit * float(np.sqrt(np.square(sizes / unit).mean()))


def _ties(
    cells: Sequence[RowStatistics], score: FloatArray
) -> list[tuple[bool | None, float | None]]:
    """Compare every row with the best score: whether they are tied, and the detectable growth."""
    scored: list[int] = np.flatnonzero(~np.isnan(score)).tolist()
    ties: list[tuple[bool | None, float | None]] = [(False, None)] * len(cells)
    columns = {key: i for i, key in enumerate({key: None for c in cells for key in c.imputed})}
    errors = np.full((len(scored), len(columns)), np.nan)
    for row, index in enumerate(scored):
        imputed = cells[index].imputed
        errors[row, [columns[key] for key in imputed]] = list(imputed.values())
    # Rows that mostly failed are not ranked, so they cannot be the best.
    ranked = [i for i, index in enumerate(scored) if not _mostly_failed(cells[index].figures)]
    if not ranked:
        return ties
    best = min(ranked, key=lambda i: score[scored[i]])
    others = np.arange(len(scored)) != best
    compared = compare_rows(errors, best)
    adjusted = holm(compared.p[others])
    for row, p in zip(np.flatnonzero(others).tolist(), adjusted, strict=True):
        growth = _detectable(compared, row, int(others.sum()))
        resolved = growth is not None and growth <= RESOLVED
        ties[scored[row]] = (None if not resolved else True) if p > TIED_LEVEL else False, growth
    ties[scored[best]] = True, None
    return ties


def _detectable(compared: RowComparisons, row: int, family: int) -> float | None:
    """Return the growth of the RMSE over the best that the first of Holm's steps detects."""
    error, n = float(compared.standard_error[row]), int(compared.n[row])
    level = TIED_LEVEL / 2 / family
    # The smallest possible p-value is one over the number of swaps.
    if n < 2 or not math.isfinite(error) or 0.5**n > level:
        return None
    growth = detectable_growth(error, n, level)
    return None if growth is None else math.sqrt(1 + growth) - 1


def _mostly_failed(figures: RowFigures) -> bool:
    """Return whether more than half of the trials gave no estimate, unavailable ones aside."""
    return (figures.failure.value or 0.0) > MOSTLY_FAILED


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def reordered(board: Board, by: By) -> Board:
    """Order a board's rows by another measure, without recomputing statistics."""
    return replace(board, by=by, rows=tuple(ordered(board.rows, by)))


def ordered(rows: Sequence[Row], by: By) -> list[Row]:
    """Return rows with their ranks, best first; those without a rank last, in given order.

    By RMSE a row without a score has no rank, nor has one that failed on more than half of its
    data sets: its score would be mostly that of the logging average. By coverage a row that
    withheld every standard error stays, without a rank; one that offers none is left out.
    """
    measure = COLUMNS[LAYOUTS[by].measure].value
    values = np.array([measure(row) for row in rows], dtype=np.float64)
    if by == "rmse":
        values[[_mostly_failed(row) for row in rows]] = np.nan
    ranks = shared_ranks(values)
    ranked = [
        replace(row, rank=rank)
        for row, rank in zip(rows, ranks, strict=True)
        if rank is not None
        or by in ("rmse", "positivity")
        or (by == "coverage" and row.withheld.count)
    ]
    return sorted(ranked, key=lambda row: math.inf if row.rank is None else row.rank)
