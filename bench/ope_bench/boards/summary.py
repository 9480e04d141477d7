"""Summary over settings: mean ranks and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.boards.board import Board, Row
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.canonical import canonical_json
from ope_bench.statistics.ranks import (
    critical_difference,
    interquartile_mean,
    mean_ranks,
    performance_profile,
)

__all__ = ["Summary", "SummaryRow", "across", "summaries", "summary_columns"]

FACTORS = (1.0, 1.1, 1.5, 2.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """One estimator over all settings; None where a statistic is undefined.

    Parameters
    ----------
    settings : number of settings in which it has a score.
    mean_rank : over the settings in which every row has a score.
    factor_iqm : interquartile mean of its score over the setting's best score.
    within : share of settings in which its score is within each of the factors of the best.
    """

    estimator: str
    label: str
    params: Mapping[str, Any]
    device: str
    settings: int
    mean_rank: float | None
    factor_iqm: float | None
    within: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A summary over settings that measure errors against the same truth.

    Parameters
    ----------
    truth : kind of truth of the boards.
    settings : number of boards.
    complete : boards in which every row has a score; mean ranks are over these.
    critical_difference : of two mean ranks at 5 % (Nemenyi); assumes independent settings.
    factors : the factors of ``within``.
    """

    truth: str
    settings: int
    complete: int
    critical_difference: float | None
    factors: tuple[float, ...]
    rows: tuple[SummaryRow, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON."""
        rows = [
            vars(row) | {"params": dict(row.params), "within": [*row.within]} for row in self.rows
        ]
        return vars(self) | {"factors": list(self.factors), "rows": rows}


def across(boards: Iterable[Board]) -> Summary | None:
    """Summarize boards by score; None for fewer than two boards or rows."""
    board_list = list(boards)
    cells: dict[str, dict[int, Row]] = {}
    for index, board in enumerate(board_list):
        for row in board.rows:
            name = canonical_json([row.estimator, row.params, row.device])
            cells.setdefault(name, {})[index] = row
    if len(board_list) < 2 or len(cells) < 2:
        return None
    scores = np.array(
        [[_score(row.get(index)) for index in range(len(board_list))] for row in cells.values()]
    )
    complete = int((~np.isnan(scores).any(axis=0)).sum())
    ranks = mean_ranks(scores)
    profile = performance_profile(scores, np.array(FACTORS))
    filled = np.where(np.isnan(scores), np.inf, scores).min(axis=0)
    best = np.where(np.isfinite(filled) & (filled > 0), filled, np.nan)
    rows = [
        _row(list(cell.values()), rank, row / best, within)
        for cell, rank, row, within in zip(cells.values(), ranks, scores, profile, strict=True)
    ]
    rows.sort(key=lambda row: (row.mean_rank is None, row.mean_rank, row.factor_iqm or math.inf))
    return Summary(
        truth=board_list[0].truth,
        settings=len(board_list),
        complete=complete,
        critical_difference=critical_difference(len(cells), complete),
        factors=FACTORS,
        rows=tuple(rows),
    )


def summary_columns(summary: Summary, *, further: bool = False) -> list[BoardColumn]:
    """Return the columns of a summary.

    Parameters
    ----------
    summary : the summary.
    further : include columns for which only the page has room.
    """
    settings = BoardColumn(
        key="settings",
        explanation="settings with a score",
        value=lambda row: row.settings,
        format="count",
    )
    # Only the best row is within the first factor, 1.
    first = 0 if further else 1
    return [
        BoardColumn(
            key="estimator",
            explanation="estimator",
            value=lambda row: row.estimator,
            format="estimator",
        ),
        BoardColumn(
            key="mean_rank",
            explanation="mean rank by score, over the settings in which all estimators have one",
            value=lambda row: row.mean_rank,
            drop=None,
        ),
        BoardColumn(
            key="factor_iqm",
            title="x best",
            explanation="interquartile mean of the score over the setting's best",
            value=lambda row: row.factor_iqm,
            drop=None,
        ),
        *([settings] if further else []),
        *(_within(index, summary.factors[index]) for index in range(first, len(summary.factors))),
    ]


def _within(index: int, factor: float) -> BoardColumn:
    return BoardColumn(
        key=f"within_{index}",
        title=f"within x{factor:g}",
        explanation="share of settings in which the score is within that factor of the best",
        value=lambda row: row.within[index],
        format="percent",
        drop=len(FACTORS) - index,
    )


def summaries(boards: Iterable[Board]) -> list[Summary]:
    """Compute a summary for each kind of truth of boards by RMSE."""
    kinds: dict[str, list[Board]] = {}
    for board in boards:
        if board.by == "rmse":
            kinds.setdefault(board.truth, []).append(board)
    all_summaries = (across(members) for members in kinds.values())
    return [item for item in all_summaries if item is not None]


def _score(row: Row | None) -> float:
    return math.nan if row is None or row.score is None else row.score


def _row(cell: Sequence[Row], rank: float, factor: Any, within: Any) -> SummaryRow:
    # Labels of the same parameters agree between boards.
    longest = max(cell, key=lambda row: len(row.label))
    return SummaryRow(
        estimator=longest.estimator,
        label=longest.label,
        params=longest.params,
        device=longest.device,
        settings=sum(row.score is not None for row in cell),
        mean_rank=None if math.isnan(rank) else float(rank),
        factor_iqm=interquartile_mean(factor[~np.isnan(factor)]),
        within=tuple(map(float, within)),
    )
