"""Advice as tables, for terminals and notebooks."""

from __future__ import annotations

from typing import Any

from ope_bench.logs.advice.advice_values import AdviceValues
from ope_bench.logs.checking.check_tables import check_cells, check_columns
from ope_bench.logs.result_tables import span
from ope_bench.report.text.formats import MISSING, figure, percent
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["advice_tables", "summary"]

_CANDIDATES_LEGEND = (
    "* recommended; error, rank, cover: over the worlds below; worst: largest error over that of "
    "the best candidate of the same world"
)
_WORLDS_LEGEND = (
    "told apart: area under the curve of a classifier between the world's rows and the log's, .5 "
    "is chance; weights: largest difference of their distribution functions; error: of the "
    "recommended estimator"
)


def summary(advice: AdviceValues) -> str:
    """Return the recommendation in one sentence."""
    chosen = advice.recommended
    if chosen is None:
        return "no estimator has a value here"
    words = f"use {chosen.label}: {figure(chosen.value)}"
    if chosen.low is not None:
        words += f" ({span(chosen.low, chosen.high)})"
    lift = chosen.value - advice.logging_average
    words += f", {'+' if lift > 0 else ''}{figure(lift)} over the logged average"
    if chosen.expected_rmse is not None:
        words += f"; expected error {figure(chosen.expected_rmse)}"
    return words


def advice_tables(advice: AdviceValues) -> list[Table]:
    """Return tables of the checks, the candidates and the worlds."""
    return [_checks(advice), _candidates(advice), _worlds(advice)]


def _checks(advice: AdviceValues) -> Table:
    log = advice.log
    return Table(
        title=f"{advice.verdict} | {advice.target} | {log['rows']:,} rows, "
        f"{log['actions']:,} actions",
        columns=check_columns(),
        rows=tuple(check_cells(one) for one in advice.checks),
        notes=(summary(advice),),
    )


def _candidates(advice: AdviceValues) -> Table:
    columns = (
        TableColumn(key="estimator", title="estimator", right=False, overflow="cut"),
        TableColumn(key="value", title="value"),
        TableColumn(key="interval", title="interval", right=False),
        TableColumn(key="rmse", title="error"),
        TableColumn(key="rank", title="rank", drop=1),
        TableColumn(key="worlds_best", title="best on", drop=0),
        TableColumn(key="worst_ratio", title="worst"),
        TableColumn(key="coverage", title="cover"),
    )
    return Table(
        title="candidates",
        columns=columns,
        rows=tuple(_candidate(one, advice) for one in advice.ranked()),
        notes=(_CANDIDATES_LEGEND, f"chosen by: {advice.rule}"),
    )


def _candidate(one: dict[str, Any], advice: AdviceValues) -> tuple[Cell, ...]:
    chosen = advice.recommended is not None and one["label"] == advice.recommended.label
    rank, ratio = one["rank"], one["worst_ratio"]
    return (
        Cell(f"{one['label']}{' *' * chosen}", one["label"], "good" if chosen else ""),
        Cell(figure(one["value"]), one["value"]),
        Cell(span(one["low"], one["high"]), [one["low"], one["high"]]),
        Cell(figure(one["rmse"]), one["rmse"]),
        Cell(MISSING if rank is None else str(rank), rank),
        Cell(str(one["worlds_best"]), one["worlds_best"]),
        Cell(MISSING if ratio is None else f"x{ratio:.2f}", ratio),
        Cell(percent(one["coverage"]), one["coverage"]),
    )


def _worlds(advice: AdviceValues) -> Table:
    columns = (
        TableColumn(key="name", title="world made from the log", right=False, overflow="fold"),
        TableColumn(key="replicates", title="data sets"),
        TableColumn(key="likeness", title="told apart"),
        TableColumn(key="weight_distance", title="weights", drop=0),
        TableColumn(key="best", title="best", right=False),
        TableColumn(key="rmse", title="error"),
    )
    label = advice.recommended.label if advice.recommended is not None else ""
    rows = tuple(
        (
            Cell(world.name, world.name),
            Cell(str(world.replicates), world.replicates),
            Cell(figure(world.likeness, 2), world.likeness),
            Cell(figure(world.weight_distance, 2), world.weight_distance),
            Cell(world.best or MISSING, world.best),
            Cell(figure(world.rmse.get(label)), world.rmse.get(label)),
        )
        for world in advice.worlds
    )
    told = dict.fromkeys(f"{one.name}: {one.message}" for one in advice.worlds if one.message)
    return Table(
        title="evidence",
        columns=columns,
        rows=rows,
        notes=(_WORLDS_LEGEND, *told, *advice.notes),
    )
