"""Table of failed trials, those with the same reason in one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ope_bench.report.text.table import Cell, Table, TableColumn
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Status

__all__ = ["failure_table"]


def failure_table(records: Iterable[TrialRecord]) -> Table:
    """Make the table of the records without an estimate, the most frequent first.

    Records of one estimator, status and type of error share a row with the reason of the first.
    """
    found: Counter[tuple[str, Status, str | None]] = Counter()
    reasons: dict[tuple[str, Status, str | None], str] = {}
    for record in records:
        if record.status is not Status.OK:
            spec = record.trial.estimator
            kind = spec.label or spec.id, record.status, record.error_type
            found[kind] += 1
            reasons.setdefault(kind, record.reason)
    return Table(
        columns=(
            TableColumn(key="estimator", title="estimator", right=False, overflow="cut"),
            TableColumn(key="status", title="status", right=False),
            TableColumn(key="count", title="trials"),
            TableColumn(key="reason", title="reason", right=False, overflow="fold"),
        ),
        rows=tuple(
            (
                Cell(name, name),
                Cell(status.value, status.value, "bad" if status.broken else "caution"),
                Cell(f"{count:,}", count),
                Cell(reasons[name, status, error], reasons[name, status, error]),
            )
            for (name, status, error), count in found.most_common()
        ),
    )
