"""Estimates as tables, for terminals, Markdown, CSV and notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ope_bench.boards.columns.column import Style
from ope_bench.logs.result_rows import (
    Difference,
    EstimateRow,
    EstimateValues,
    TargetEstimates,
)
from ope_bench.report.notebook.html_table import render_html
from ope_bench.report.text.formats import MISSING, access_letters, figure, percent, seconds
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["csv_table", "html", "notebook_html", "span", "tables"]

_COLUMNS: tuple[TableColumn, ...] = (
    TableColumn(key="estimator", title="estimator", right=False, overflow="cut"),
    TableColumn(key="value", title="value"),
    TableColumn(key="interval", title="interval", right=False),
    TableColumn(key="lift", title="lift"),
    TableColumn(key="lift_interval", title="its interval", right=False, drop=4),
    TableColumn(key="ess", title="ESS", drop=3),
    TableColumn(key="largest", title="largest", drop=2),
    TableColumn(key="access", title="access", right=False, drop=1),
    TableColumn(key="seconds", title="time", drop=0),
    TableColumn(key="status", title="status", right=False),
)


def tables(result: EstimateValues) -> list[Table]:
    """Return a table for each policy, and one of differences where there are several."""
    found = [_target_table(result, target) for target in result.targets]
    if len(result.targets) > 1:
        found.append(_difference_table(result))
    last = found[-1]
    notes = (*last.notes, *result.notes)
    found[-1] = Table(title=last.title, columns=last.columns, rows=last.rows, notes=notes)
    return found


def _target_table(result: EstimateValues, target: TargetEstimates) -> Table:
    mass = target.unsupported_mass
    parts = [
        target.name,
        f"{result.log['rows']:,} rows, {result.log['actions']:,} actions",
        f"logged average {figure(result.logging_average)}",
        "unsupported mass unknown" if mass is None else f"unsupported mass {percent(mass)}",
    ]
    notes = [f"{row.label}: {row.message}" for row in target.rows if row.message]
    if target.left_out:
        by_reason: dict[str, list[str]] = {}
        for label, reason in target.left_out:
            by_reason.setdefault(reason, []).append(label)
        notes += [f"not run: {', '.join(who)}: {why}" for why, who in by_reason.items()]
    rows = tuple(_cells(row) for row in target.rows)
    columns = _COLUMNS
    if all(row.status == "ok" for row in target.rows):
        columns, rows = columns[:-1], tuple(cells[:-1] for cells in rows)
    return Table(title=" | ".join(parts), columns=columns, rows=rows, notes=tuple(_unique(notes)))


def _unique(notes: list[str]) -> list[str]:
    """Join notes that say the same of several estimators."""
    by_text: dict[str, list[str]] = {}
    for note in notes:
        label, _, text = note.partition(": ")
        by_text.setdefault(text, []).append(label)
    return [f"{', '.join(who)}: {text}" for text, who in by_text.items()]


def _cells(row: EstimateRow) -> tuple[Cell, ...]:
    style: Style = "" if row.status == "ok" else "bad"
    return (
        Cell(row.label, row.label),
        Cell(figure(row.value), row.value),
        Cell(span(row.low, row.high), [row.low, row.high]),
        Cell(_signed(row.lift), row.lift),
        Cell(span(row.lift_low, row.lift_high, signed=True), [row.lift_low, row.lift_high]),
        Cell(percent(row.ess_fraction), row.ess_fraction),
        Cell(percent(row.max_weight_share), row.max_weight_share),
        Cell(access_letters(row.access), list(row.access)),
        Cell(seconds(row.seconds), row.seconds),
        Cell(row.status, row.status, style),
    )


def _signed(value: float | None) -> str:
    text = figure(value)
    return f"+{text}" if value is not None and value > 0 else text


def span(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Return an interval in words, a dash for none."""
    if low is None or high is None:
        return MISSING
    write = _signed if signed else figure
    return f"{write(low)} to {write(high)}"


def _difference_table(result: EstimateValues) -> Table:
    columns = (
        TableColumn(key="estimator", title="estimator", right=False, overflow="cut"),
        TableColumn(key="target", title="policy", right=False),
        TableColumn(key="versus", title="minus", right=False),
        TableColumn(key="difference", title="difference"),
        TableColumn(key="interval", title="interval, paired", right=False),
    )
    rows = tuple(_difference_cells(one) for one in result.differences)
    return Table(title="differences between policies", columns=columns, rows=rows)


def _difference_cells(one: Difference) -> tuple[Cell, ...]:
    return (
        Cell(one.label, one.label),
        Cell(one.target, one.target),
        Cell(one.versus, one.versus),
        Cell(_signed(one.difference), one.difference),
        Cell(span(one.low, one.high, signed=True), [one.low, one.high]),
    )


def csv_table(result: EstimateValues) -> Table:
    """Return one table for programs: a line for each policy and estimator, all fields."""
    records: list[dict[str, Any]] = [
        {"target": target["name"], **row, "unsupported_mass": target["unsupported_mass"]}
        for target in result.as_json()["targets"]
        for row in target["rows"]
    ]
    keys = list(records[0]) if records else []
    return Table(
        columns=tuple(TableColumn(key=key, title=key) for key in keys),
        rows=tuple(tuple(Cell("", record[key]) for key in keys) for record in records),
    )


def html(result: EstimateValues) -> str:
    """Return the tables for a notebook."""
    return notebook_html(tables(result))


def notebook_html(shown: Iterable[Table]) -> str:
    """Return tables with their titles and notes; everything is escaped."""
    return "\n".join(map(render_html, shown))
