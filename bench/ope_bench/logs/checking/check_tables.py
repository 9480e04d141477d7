"""The check of a log as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ope_bench.boards.columns.column import Style
from ope_bench.logs.checking.findings import Finding, Runnable
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["check_cells", "check_columns", "check_tables"]


def check_tables(
    facts: Mapping[str, Any],
    findings: Sequence[Finding],
    runnable: Sequence[Runnable],
    notes: Sequence[str],
) -> list[Table]:
    """Return a table of the checks and one of the estimators.

    Parameters
    ----------
    facts : of the log.
    findings, runnable, notes : as in `ope_bench.logs.checking.checks.LogCheck`.
    """
    known = "known" if facts["propensity"] else "unknown"
    title = (
        f"{facts['rows']:,} rows | {facts['units']:,} units | {facts['actions']:,} actions | "
        f"propensities {known} | target: {facts['target_form']}"
    )
    checks = Table(
        title=title,
        columns=check_columns(),
        rows=tuple(check_cells(one) for one in findings),
        notes=tuple(notes),
    )
    rows: dict[tuple[str, str], list[str]] = {}
    for one in runnable:
        rows.setdefault((one.target, one.lacks), []).append(one.estimator)
    estimators = Table(
        title="estimators of the default list",
        columns=(
            TableColumn(key="target", title="policy", right=False),
            TableColumn(key="estimators", title="estimators", right=False, overflow="fold"),
            TableColumn(key="lacks", title="", right=False, overflow="fold"),
        ),
        rows=tuple(
            (
                Cell(target, target),
                Cell(", ".join(names), names),
                Cell(lacks or "can run", lacks, "" if lacks else "good"),
            )
            for (target, lacks), names in rows.items()
        ),
    )
    return [checks, estimators]


def check_columns() -> tuple[TableColumn, ...]:
    """Return the columns of a table of checks."""
    return (
        TableColumn(key="passed", title="", right=False),
        TableColumn(key="name", title="check", right=False, overflow="fold"),
        TableColumn(key="message", title="finding", right=False, overflow="fold"),
    )


def check_cells(finding: Finding) -> tuple[Cell, ...]:
    """Return one line of a table of checks."""
    words: dict[bool | None, tuple[str, Style]] = {
        True: ("ok", "good"),
        False: ("LOOK", "bad"),
        None: ("", ""),
    }
    word, style = words[finding.passed]
    return (
        Cell(word, finding.passed, style),
        Cell(finding.name, finding.name),
        Cell(finding.message, finding.message),
    )
