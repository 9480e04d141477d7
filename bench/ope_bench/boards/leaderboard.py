"""Compute boards from trial records.

There is one board for each setting of an environment, kind of truth and measure (``by``). A row is
one estimator with its parameters on one device. Failures are never dropped silently: every row
shows its number of replicates, of finite estimates and of failures; in ``score`` and rank,
failures count with the logging average's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ope_bench.boards.aggregation import ReplicateFacts, RowStatistics, aggregate
from ope_bench.boards.board import Board, By, JointFigures, Row
from ope_bench.boards.columns.built_in import as_json
from ope_bench.boards.ranking import joint_statistics, ordered
from ope_bench.boards.summary import summaries
from ope_bench.canonical import canonical_json
from ope_bench.contracts.data import TruthKind
from ope_bench.plugins.labels import distinct_labels
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED, RESAMPLES
from ope_bench.statistics.distribution import root_mean_square
from ope_bench.trials.record import TrialRecord

__all__ = [
    "boards",
    "iter_boards",
    "document",
]


def document(found: Iterable[Board]) -> dict[str, Any]:
    """Return the document of ``leaderboard --format json``."""
    kept = list(found)
    return {
        "schema": 1,
        "boards": [as_json(board) for board in kept],
        "bootstrap": {"level": 0.95, "resamples": RESAMPLES, "seed": BOOTSTRAP_SEED},
        "across": [one.as_json() for one in summaries(kept)],
    }


def boards(
    records: Iterable[TrialRecord], *, by: By = "rmse", truth: TruthKind = "expected"
) -> list[Board]:
    """Compute all boards of the records, settings ordered by id and parameters.

    The order of the records has no effect, so a resumed run gives the same boards as an
    uninterrupted one.

    Parameters
    ----------
    records : the newest of each key; of records with equal keys, the last counts.
    by : the measure that orders the rows. Boards by time, by ratio and by balance contain only
        rows that have it.
    truth : the value against which errors are measured.
    """
    settings: dict[str, list[TrialRecord]] = {}
    for record in records:
        settings.setdefault(record.trial.environment.identity_json, []).append(record)
    return iter_boards(settings.values(), by=by, truth=truth)


def iter_boards(
    settings: Iterable[Iterable[TrialRecord]],
    *,
    by: By = "rmse",
    truth: TruthKind = "expected",
) -> list[Board]:
    """Compute `boards` of one setting after another, without keeping the records.

    Parameters
    ----------
    settings : the records of each setting of an environment.
    by, truth : as for `boards`.
    """
    found: list[tuple[PluginSpec, Board]] = []
    for group in settings:
        newest = {record.key: record for record in group}
        records = sorted(newest.values(), key=_record_order())
        if records:
            # Finite estimates may be so large that a figure made of them is not.
            with np.errstate(over="ignore", invalid="ignore"):
                board = _board(records, by, truth)
            found.append((records[0].trial.environment, board))
    found.sort(key=lambda one: (_sortable(one[0]), one[0].identity_json))
    labels = distinct_labels([spec for spec, _ in found])
    return [replace(board, label=label) for (_, board), label in zip(found, labels, strict=True)]


def _record_order() -> Callable[[TrialRecord], tuple[Any, ...]]:
    """Return a sort key of records that caches the part of each spec."""
    cached: dict[int, tuple[Any, ...]] = {}

    def spec_order(spec: PluginSpec) -> tuple[Any, ...]:
        if id(spec) not in cached:
            cached[id(spec)] = _sortable(spec)
        return cached[id(spec)]

    def of(record: TrialRecord) -> tuple[Any, ...]:
        trial = record.trial
        specs = spec_order(trial.environment), spec_order(trial.estimator)
        return *specs, trial.device, trial.threads, trial.seed, trial.replicate, trial.key

    return of


def _sortable(spec: PluginSpec) -> tuple[Any, ...]:
    """Return a sort key of a spec: numbers numerically, all else as text."""
    params = tuple(
        (name, 0, value, "")
        if isinstance(value, int | float) and not isinstance(value, bool)
        else (name, 1, 0, canonical_json(value))
        for name, value in sorted(spec.params.items())
    )
    return (spec.id, params, spec.worlds, spec.version)


def _board(records: Sequence[TrialRecord], by: By, truth: TruthKind) -> Board:
    facts = ReplicateFacts.of(records, truth)
    rows: dict[str, list[TrialRecord]] = {}
    for record in records:
        trial = record.trial
        key = f"{trial.estimator.identity_json} {trial.device} {trial.threads}"
        rows.setdefault(key, []).append(record)
    statistics = [aggregate(group, facts) for group in rows.values()]
    specs = [_row_spec(group) for group in rows.values()]
    parts = (statistics, joint_statistics(statistics), rows.values(), specs)
    board_rows = [_row(*part) for part in zip(*parts, distinct_labels(specs), strict=True)]
    spec = records[0].trial.environment
    origins = {record.environment_origin: None for record in records if record.environment_origin}
    return Board(
        by=by,
        environment=spec.id,
        environment_params=spec.params,
        environment_origin=", ".join(origins) or spec.origin,
        environment_version=spec.version,
        worlds=spec.worlds,
        truth=truth,
        truth_se=_root_mean_square(record.truth_expected_se for record in records),
        truth_rms=_root_mean_square(facts.truth.values()),
        rows=tuple(ordered(board_rows, by)),
    )


def _root_mean_square(values: Iterable[float | None]) -> float | None:
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    return root_mean_square(known) if len(known) else None


def _row_spec(group: Sequence[TrialRecord]) -> PluginSpec:
    """Return the row's spec, with the label of its last labeled record; keys contain no labels."""
    labeled = [record.trial.estimator for record in group if record.trial.estimator.label]
    return (labeled or [group[0].trial.estimator])[-1]


def _row(
    statistics: RowStatistics,
    joint: JointFigures,
    group: Sequence[TrialRecord],
    spec: PluginSpec,
    label: str,
) -> Row:
    last = group[-1]
    return Row(
        estimator=spec.id,
        label=label,
        params=spec.params,
        access=tuple(dict.fromkeys(flag for record in group for flag in record.access)),
        device=last.trial.device.value,
        threads=last.trial.threads,
        origin=last.origin or spec.origin,
        **vars(statistics.figures),
        **vars(joint),
    )
