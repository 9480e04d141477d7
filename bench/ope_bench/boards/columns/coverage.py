"""Columns on intervals: how often they hold the truth, on which side they miss it, how wide."""

from __future__ import annotations

from typing import Any

from ope_bench.boards.columns.column import BoardColumn
from ope_bench.boards.columns.emphasis import DOUBTFUL, row_warnings
from ope_bench.boards.columns.makers import count, json_value, number, percent, text
from ope_bench.statistics.coverage import Coverage, wilson

__all__ = ["COVERAGE", "COVERAGE_DETAILS", "DERIVED_COVERAGE", "ESS_PARTS"]


ESS_PARTS = (
    ("low", "<.01", "below .01"),
    ("middle", "<.1", "from .01 to below .1"),
    ("high", "≥.1", "at least .1"),
)
"""Keys, headings and words of the parts by effective sample size."""


def _part(row: Any, part: int) -> Coverage:
    parts: tuple[Coverage, ...] = row.coverage.by_ess
    # Boards that were read from JSON have no parts.
    return parts[part] if parts else Coverage(share=wilson(0, 0), below=0, above=0, width=None)


def _interval(row: Any) -> tuple[float, float] | None:
    share = row.coverage.share
    return None if share.low is None else (share.low, share.high)


COVERAGE = (
    percent(
        "coverage",
        "cover",
        "share of 95 % intervals that hold the expected truth",
        lambda row: row.coverage.share.value,
        mark=DOUBTFUL,
        hide_empty=True,
        drop=2,
    ),
    percent(
        "coverage_low",
        "cover low",
        "lower end of its 95 % interval",
        lambda row: row.coverage.share.low,
    ),
    percent(
        "coverage_high",
        "cover high",
        "upper end of its 95 % interval",
        lambda row: row.coverage.share.high,
    ),
    percent(
        "missed_below",
        "below",
        "share of 95 % intervals that lie wholly below the expected truth",
        lambda row: row.coverage.missed_below,
    ),
    percent(
        "missed_above",
        "above",
        "share of 95 % intervals that lie wholly above the expected truth",
        lambda row: row.coverage.missed_above,
    ),
    number(
        "interval_width",
        "width",
        "mean width of 95 % intervals",
        lambda row: row.coverage.width,
        mark=DOUBTFUL,
        hide_empty=True,
        drop=1,
    ),
    count(
        "intervals",
        "",
        "trials that gave an interval",
        lambda row: row.coverage.share.total,
        drop=3,
    ),
    count(
        "withheld",
        "",
        "trials in which the estimator withheld its standard error",
        lambda row: row.withheld.count,
        informative=lambda board: any(row.withheld.count for row in board.rows),
    ),
    json_value(
        "warnings",
        "",
        "what a reader of its standard errors must know, in words",
        lambda row: list(row_warnings(row)),
    ),
)


def _columns_of_part(part: int) -> tuple[BoardColumn, BoardColumn]:
    """Make the columns of the trials with one order of ESS/n."""
    key, title, words = ESS_PARTS[part]
    share = percent(
        f"coverage_ess_{key}",
        f"ESS/n {title}",
        f"coverage in trials whose ESS/n is {words}",
        lambda row: _part(row, part).share.value,
        hide_empty=True,
        drop=part,
    )
    total = count(
        f"intervals_ess_{key}",
        f"n {title}",
        f"intervals of trials whose ESS/n is {words}",
        lambda row: _part(row, part).share.total,
    )
    return share, total


COVERAGE_DETAILS = (
    text(
        "interval_kind",
        "kind",
        "how the intervals were made",
        lambda row: row.coverage.kind or None,
        drop=1,
    ),
    number(
        "median_interval_width",
        "median width",
        "median width of the intervals",
        lambda row: row.coverage.median_width,
        mark=DOUBTFUL,
        drop=12,
    ),
    number(
        "interval_score",
        "score",
        "interval score: mean width plus 40 times the distance from the truth of those that miss",
        lambda row: row.coverage.score,
        drop=11,
    ),
    number(
        "interval_level",
        "level",
        "what the intervals claim to cover",
        lambda row: row.coverage.level if row.coverage.share.total else None,
    ),
    *(column for part in range(len(ESS_PARTS)) for column in _columns_of_part(part)),
)
"""Further figures, in JSON and CSV of boards by coverage."""

DERIVED_COVERAGE = (
    percent(
        "coverage_interval",
        "95 % interval",
        "95 % interval (Wilson) of the share of intervals that hold the expected truth",
        _interval,
    ),
    percent(
        "coverage_gap",
        "gap",
        "distance of the coverage from what the intervals claim",
        lambda row: row.coverage.gap,
    ),
)
