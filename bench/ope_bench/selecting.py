"""How well estimators choose among target policies that share their logs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.leaderboard import setting_label
from ope_bench.records import PluginSpec, Status, TrialRecord
from ope_bench.seeding import canonical_json
from ope_bench.statistics.selection import Selection, selection

__all__ = ["SelectionBoard", "SelectionRow", "selection_boards"]

FIGURES = ("spearman", "kendall", "regret", "relative_regret", "type_one", "type_two")


@dataclass(frozen=True)
class SelectionRow:
    """One estimator's choices; means over replicates, None where no replicate has the figure.

    Parameters
    ----------
    replicates : in which it had an estimate for at least two policies.
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


@dataclass(frozen=True)
class SelectionBoard:
    """Target policies on the same logs, and who ranks them how well, the least regret first.

    Parameters
    ----------
    environment : its id.
    policies : what tells the settings apart.
    """

    environment: str
    policies: tuple[str, ...]
    rows: tuple[SelectionRow, ...]

    def as_json(self) -> dict[str, Any]:
        """The board as plain JSON."""
        rows = [vars(row) | {"params": dict(row.params)} for row in self.rows]
        return {"environment": self.environment, "policies": list(self.policies), "rows": rows}


def selection_boards(records: Iterable[TrialRecord]) -> list[SelectionBoard]:
    """One board for each group of settings with the same logs.

    Logs are drawn before and independently of the target, so settings that differ in their target
    policy alone have equal logging averages on every replicate; that is how they are found.
    """
    settings: dict[str, list[TrialRecord]] = {}
    for record in records:
        settings.setdefault(canonical_json(record.trial.environment.identity), []).append(record)
    groups: dict[tuple[Any, ...], list[list[TrialRecord]]] = {}
    for kept in settings.values():
        logs = sorted({(*_replicate(one), one.logging_average) for one in kept if _usable(one)})
        if logs:
            groups.setdefault((kept[0].trial.environment.id, *logs), []).append(kept)
    return [_board(group) for group in groups.values() if len(group) > 1]


def _usable(record: TrialRecord) -> bool:
    return record.logging_average is not None and record.truth_expected is not None


def _replicate(record: TrialRecord) -> tuple[int, int]:
    return record.trial.seed, record.trial.replicate


def _board(group: Sequence[Sequence[TrialRecord]]) -> SelectionBoard:
    worlds = [kept[0].trial.environment for kept in group]
    rows: dict[str, tuple[PluginSpec, str]] = {}
    cells: dict[str, dict[tuple[int, int], list[TrialRecord | None]]] = {}
    values: dict[tuple[int, int], list[float]] = {}
    for place, kept in enumerate(group):
        for record in kept:
            trial = record.trial
            name = canonical_json([trial.estimator.identity, trial.device])
            rows.setdefault(name, (trial.estimator, trial.device))
            cell = cells.setdefault(name, {})
            cell.setdefault(_replicate(record), [None] * len(group))[place] = record
            if record.truth_expected is not None:
                known = values.setdefault(_replicate(record), [math.nan] * len(group))
                known[place] = record.truth_expected
    specs = [spec for spec, _ in rows.values()]
    found = [
        _row(spec, device, setting_label(spec, specs), cells[name], values)
        for name, (spec, device) in rows.items()
    ]
    found.sort(key=lambda row: (math.inf if row.regret is None else row.regret, row.label))
    labels = tuple(setting_label(world, worlds) for world in worlds)
    return SelectionBoard(worlds[0].id, labels, tuple(found))


def _row(
    spec: PluginSpec,
    device: str,
    label: str,
    cell: Mapping[tuple[int, int], Sequence[TrialRecord | None]],
    values: Mapping[tuple[int, int], Sequence[float]],
) -> SelectionRow:
    judged: list[Selection] = []
    for replicate, records in sorted(cell.items()):
        value = np.array(values.get(replicate, ()), dtype=np.float64)
        estimate = np.array([_estimate(record) for record in records])
        if np.isfinite(estimate).sum() < 2 or len(value) == 0 or np.isnan(value).any():
            continue
        reference = next((one.logging_average for one in records if one is not None), None)
        judged.append(selection(estimate, value, reference=reference))
    means = {name: _mean(getattr(one, name) for one in judged) for name in FIGURES}
    return SelectionRow(spec.id, label, spec.params, device, len(judged), **means)


def _estimate(record: TrialRecord | None) -> float:
    if record is None or record.status is not Status.OK or record.estimate is None:
        return math.nan
    return record.estimate


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
