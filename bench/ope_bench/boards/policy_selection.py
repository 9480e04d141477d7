"""Boards of policy selection: choosing among target policies on the same logs by estimates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.boards.columns.column import BoardColumn
from ope_bench.canonical import canonical_json
from ope_bench.plugins.labels import distinct_label
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.selection import Selection, selection
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Status

__all__ = [
    "SELECTION_COLUMNS",
    "SELECTION_LAYOUT",
    "SelectionBoard",
    "SelectionRow",
    "selection_boards",
]

MEASURES = ("spearman", "kendall", "regret", "relative_regret", "type_one", "type_two")


@dataclass(frozen=True, kw_only=True)
class SelectionRow:
    """Selection measures of one estimator; means over replicates, None where undefined.

    Parameters
    ----------
    replicates : number of replicates with estimates for at least two policies.
    spearman ... type_two : see `ope_bench.statistics.selection.Selection`; a policy whose
        estimate failed cannot be chosen. The policy in use is the logging policy, at its
        average reward.
    """

    estimator: str
    label: str
    params: Mapping[str, Any]
    device: str
    replicates: int
    spearman: float | None
    kendall: float | None
    regret: float | None
    relative_regret: float | None
    type_one: float | None
    type_two: float | None


@dataclass(frozen=True, kw_only=True)
class SelectionBoard:
    """Selection among target policies with the same logs; rows ordered by regret.

    Parameters
    ----------
    environment : id of the environment.
    policies : labels of the settings, one per target policy.
    """

    environment: str
    policies: tuple[str, ...]
    rows: tuple[SelectionRow, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the board as plain JSON."""
        rows = [vars(row) | {"params": dict(row.params)} for row in self.rows]
        return {"environment": self.environment, "policies": list(self.policies), "rows": rows}


def _column(key: str, title: str, explanation: str, **facts: Any) -> BoardColumn:
    def value(row: SelectionRow) -> Any:
        return getattr(row, key)

    known = {"value": value, "drop": None} | facts
    return BoardColumn(key=key, title=title, explanation=explanation, **known)


SELECTION_COLUMNS = (
    _column(
        "environment",
        "",
        "id of the environment",
        value=lambda board: board.environment,
        format="text",
        of_board=True,
    ),
    _column(
        "policies",
        "",
        "the target policies to choose among",
        value=lambda board: "; ".join(board.policies),
        format="text",
        of_board=True,
    ),
    _column("estimator", "", "estimator; in CSV the id alone", format="estimator"),
    _column(
        "label",
        "",
        "id with the parameters that distinguish rows",
        format="text",
    ),
    _column("params", "parameters", "all parameters", format="json"),
    _column("device", "", "device on which it ran", format="text"),
    _column("replicates", "n", "replicates with at least two estimates", format="count"),
    _column("spearman", "Spearman", "rank correlation of estimates and values"),
    _column("kendall", "Kendall", "Kendall's rank correlation of estimates and values"),
    _column(
        "regret",
        "",
        "value of the best policy minus that of the one with the best estimate",
    ),
    _column("relative_regret", "relative", "regret over the values' range", format="percent"),
    _column(
        "type_one",
        "type I",
        "share of policies worse than the logging policy whose estimate beats its average",
        format="percent",
    ),
    _column(
        "type_two",
        "type II",
        "share of policies better than the logging policy whose estimate does not",
        format="percent",
    ),
)
"""The columns of selection boards, in the order of CSV."""

SELECTION_LAYOUT = (
    "estimator",
    "regret",
    "relative_regret",
    "spearman",
    "kendall",
    "type_one",
    "type_two",
    "replicates",
)
"""The columns that text, Markdown and LaTeX show."""


def selection_boards(records: Iterable[TrialRecord]) -> list[SelectionBoard]:
    """Compute a board for each group of settings with the same logs.

    Logs are drawn before and independently of the target, so settings that differ in their target
    policy alone have equal logging averages on every replicate, which identifies the groups.
    """
    settings: dict[str, list[TrialRecord]] = {}
    for record in records:
        settings.setdefault(canonical_json(record.trial.environment.identity), []).append(record)
    groups: dict[tuple[Any, ...], list[list[TrialRecord]]] = {}
    for members in settings.values():
        logs = sorted({(*_replicate(r), r.logging_average) for r in members if _usable(r)})
        if logs:
            groups.setdefault((members[0].trial.environment.id, *logs), []).append(members)
    return [_board(group) for group in groups.values() if len(group) > 1]


def _usable(record: TrialRecord) -> bool:
    return record.logging_average is not None and record.truth_expected is not None


def _replicate(record: TrialRecord) -> tuple[int, int]:
    return record.trial.seed, record.trial.replicate


def _board(group: Sequence[Sequence[TrialRecord]]) -> SelectionBoard:
    environments = [members[0].trial.environment for members in group]
    rows: dict[str, tuple[PluginSpec, str]] = {}
    cells: dict[str, dict[tuple[int, int], list[TrialRecord | None]]] = {}
    values: dict[tuple[int, int], list[float]] = {}
    for index, members in enumerate(group):
        for record in members:
            trial = record.trial
            name = canonical_json([trial.estimator.identity, trial.device])
            rows.setdefault(name, (trial.estimator, trial.device.value))
            cell = cells.setdefault(name, {})
            cell.setdefault(_replicate(record), [None] * len(group))[index] = record
            if record.truth_expected is not None:
                known = values.setdefault(_replicate(record), [math.nan] * len(group))
                known[index] = record.truth_expected
    specs = [spec for spec, _ in rows.values()]
    board_rows = [
        _row(spec, device, distinct_label(spec, specs), cells[name], values)
        for name, (spec, device) in rows.items()
    ]
    board_rows.sort(key=lambda row: (math.inf if row.regret is None else row.regret, row.label))
    labels = tuple(distinct_label(item, environments) for item in environments)
    return SelectionBoard(environment=environments[0].id, policies=labels, rows=tuple(board_rows))


def _row(
    spec: PluginSpec,
    device: str,
    label: str,
    cell: Mapping[tuple[int, int], Sequence[TrialRecord | None]],
    values: Mapping[tuple[int, int], Sequence[float]],
) -> SelectionRow:
    selections: list[Selection] = []
    for replicate, records in sorted(cell.items()):
        value = np.array(values.get(replicate, ()), dtype=np.float64)
        estimate = np.array([_estimate(record) for record in records])
        if np.isfinite(estimate).sum() < 2 or len(value) == 0 or np.isnan(value).any():
            continue
        reference = next((r.logging_average for r in records if r is not None), None)
        selections.append(selection(estimate, value, reference=reference))
    means = {name: _mean(getattr(item, name) for item in selections) for name in MEASURES}
    return SelectionRow(
        estimator=spec.id,
        label=label,
        params=spec.params,
        device=device,
        replicates=len(selections),
        **means,
    )


def _estimate(record: TrialRecord | None) -> float:
    if record is None or record.status is not Status.OK or record.estimate is None:
        return math.nan
    return record.estimate


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
