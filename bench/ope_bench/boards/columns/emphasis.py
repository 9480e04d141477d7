"""Emphasis on boards: ties, failures, and values that need care in reading."""

from __future__ import annotations

from collections.abc import Iterator

from ope_bench.boards.board import Row
from ope_bench.boards.columns.column import Mark, Style
from ope_bench.statistics.value_intervals.weights import (
    DOUBTFUL_WEIGHTS,
    LEAST_EFFECTIVE,
    weight_warnings,
)

__all__ = [
    "DOUBTFUL",
    "HEAVY",
    "MOSTLY_FAILED",
    "OPEN",
    "failure_style",
    "interval_style",
    "has_doubtful_weights",
    "tied_style",
    "weights_in_doubt",
]

MOSTLY_FAILED = 0.5
"""Share of failed trials above which a row is marked."""

HEAVY = Mark(
    sign="\N{DAGGER}",
    flag="heavy_tailed",
    explanation="heavy-tailed: few data sets determine the RMSE; compare medians",
)
OPEN = "?"
"""The sign on ranks whose comparison with the best row had too little power."""

DOUBTFUL = Mark(
    sign="\N{DOUBLE DAGGER}",
    flag="concentrated",
    explanation=DOUBTFUL_WEIGHTS,
)


def tied_style(row: Row) -> Style:
    """Return the style of scores that do not differ significantly from the best."""
    return "best" if row.tied else ""


def interval_style(row: Row) -> Style:
    """Return the style of an interval."""
    return "caution" if row.heavy_tailed else "good" if row.tied else ""


def failure_style(row: Row) -> Style:
    """Return the style of failures."""
    rate = row.failure.value or 0.0
    return "bad" if rate > MOSTLY_FAILED else "caution" if rate > 0 else ""


def weights_in_doubt(row: Row) -> tuple[str, ...]:
    """Return what is to be said of a row's weights.

    That is the rule for a single record, of the mean share of the largest weight and the medians
    of the other figures over replicates.
    """
    mean, least = (
        None if (one := row.diagnostics.get(name)) is None else one.median
        for name in ("mean_weight", LEAST_EFFECTIVE)
    )
    kinds = row.coverage.kind.split(", ") if row.coverage.kind else ()
    return weight_warnings(row.support.max_weight_share, mean, least, kinds)


def has_doubtful_weights(row: Row) -> bool:
    """Return whether a row's weights are doubtful."""
    return bool(weights_in_doubt(row))


def row_warnings(row: Row) -> Iterator[str]:
    """Yield what a reader of a row's standard errors must know."""
    yield from weights_in_doubt(row)
    if row.withheld.count:
        share = f"{row.withheld.count} of {row.finite} trials"
        yield f"standard error withheld in {share}: {'; '.join(row.withheld.reasons)}"
