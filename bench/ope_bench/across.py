"""Many settings at once: who ranks where on average, and who is never far from the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.board import Board, Row
from ope_bench.seeding import canonical_json
from ope_bench.statistics.ranks import (
    critical_difference,
    interquartile_mean,
    mean_ranks,
    performance_profile,
)

__all__ = ["Across", "AcrossRow", "across", "summaries"]

FACTORS = (1.0, 1.1, 1.5, 2.0, 5.0)


@dataclass(frozen=True)
class AcrossRow:
    """One estimator over all settings; None where a figure does not exist.

    Parameters
    ----------
    settings : in which it has a score.
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


@dataclass(frozen=True)
class Across:
    """A summary over settings that measure errors against the same truth.

    Parameters
    ----------
    truth : of the first board; all should have the same.
    settings : number of boards.
    complete : boards in which every row has a score; mean ranks are over these.
    critical_difference : of two mean ranks at 5 % (Nemenyi); settings must be independent.
    factors : of ``within``.
    """

    truth: str
    settings: int
    complete: int
    critical_difference: float | None
    factors: tuple[float, ...]
    rows: tuple[AcrossRow, ...]

    def as_json(self) -> dict[str, Any]:
        """The summary as plain JSON."""
        rows = [
            vars(row) | {"params": dict(row.params), "within": [*row.within]} for row in self.rows
        ]
        return vars(self) | {"factors": list(self.factors), "rows": rows}


def across(boards: Iterable[Board]) -> Across | None:
    """Summarize boards by score; None for fewer than two boards or rows."""
    found = list(boards)
    cells: dict[str, dict[int, Row]] = {}
    for index, board in enumerate(found):
        for row in board.rows:
            name = canonical_json([row.estimator, row.params, row.device])
            cells.setdefault(name, {})[index] = row
    if len(found) < 2 or len(cells) < 2:
        return None
    scores = np.array(
        [[_score(row.get(index)) for index in range(len(found))] for row in cells.values()]
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
    return Across(
        found[0].truth,
        len(found),
        complete,
        critical_difference(len(cells), complete),
        FACTORS,
        tuple(rows),
    )


def summaries(boards: Iterable[Board]) -> list[Across]:
    """One summary for each kind of truth that boards by RMSE have."""
    kinds: dict[str, list[Board]] = {}
    for board in boards:
        if board.by == "rmse":
            kinds.setdefault(board.truth, []).append(board)
    found = (across(kept) for kept in kinds.values())
    return [one for one in found if one is not None]


def _score(row: Row | None) -> float:
    return math.nan if row is None or row.score is None else row.score


def _row(cell: Sequence[Row], rank: float, factor: Any, within: Any) -> AcrossRow:
    # A label that tells parameters apart in one board says the same in the next.
    one = max(cell, key=lambda row: len(row.label))
    return AcrossRow(
        one.estimator,
        one.label,
        one.params,
        one.device,
        sum(row.score is not None for row in cell),
        None if math.isnan(rank) else float(rank),
        interquartile_mean(factor[~np.isnan(factor)]),
        tuple(map(float, within)),
    )
