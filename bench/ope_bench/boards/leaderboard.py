"""Compute boards from trial records.

There is one board for each setting of an environment, kind of truth and measure (``by``). A row is
one estimator with its parameters on one device. Failures are never dropped silently: every row
shows its number of replicates, of finite estimates and of failures; in ``score`` and rank,
failures count with the logging average's error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ope_bench.boards.aggregation import ReplicateFacts, RowStatistics, aggregate
from ope_bench.boards.board import Board, By, JointFigures, Row
from ope_bench.boards.columns.built_in import as_json
from ope_bench.boards.ranking import joint_statistics, ordered
from ope_bench.boards.summary import summaries
from ope_bench.canonical import canonical_json
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.plugins.labels import distinct_labels
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED, RESAMPLES, resamples_of
from ope_bench.statistics.distribution import root_mean_square
from ope_bench.trials.outcomes import Outcomes
from ope_bench.trials.record import TrialRecord

__all__ = [
    "boards",
    "stream_boards",
    "document",
]


def document(found: Iterable[Board]) -> dict[str, Any]:
    """Return the document of ``leaderboard --format json``."""
    kept = list(found)
    fewest = min((resamples_of(row.finite) for board in kept for row in board.rows), default=None)
    return {
        "schema": 1,
        "boards": [as_json(board) for board in kept],
        "bootstrap": {"level": 0.95, "resamples": fewest or RESAMPLES, "seed": BOOTSTRAP_SEED},
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
    return stream_boards(Outcomes.by_setting(records), by=by, truth=truth)


def stream_boards(
    settings: Iterable[Outcomes],
    *,
    by: By = "rmse",
    truth: TruthKind = "expected",
) -> list[Board]:
    """Compute `boards` of one setting after another, without keeping the outcomes.

    Parameters
    ----------
    settings : the outcomes of each setting of an environment.
    by, truth : as for `boards`.
    """
    found: list[tuple[PluginSpec, Board]] = []
    for group in settings:
        if len(group):
            outcomes = _ordered(group.newest())
            # Finite estimates may be so large that a figure made of them is not.
            with np.errstate(over="ignore", invalid="ignore"):
                board = _board(outcomes, by, truth)
            found.append((outcomes.environment[0], board))
    found.sort(key=lambda one: (_sortable(one[0]), one[0].identity_json))
    labels = distinct_labels([spec for spec, _ in found])
    return [replace(board, label=label) for (_, board), label in zip(found, labels, strict=True)]


def _ordered(outcomes: Outcomes) -> Outcomes:
    """Order outcomes by estimator, device, threads and data set; those of one key are one."""
    specs = {id(spec): spec for spec in outcomes.estimator.tolist()}
    places = {name: _sortable(spec) for name, spec in specs.items()}
    ranks = {place: rank for rank, place in enumerate(sorted(set(places.values())))}
    rank = np.array([ranks[places[id(spec)]] for spec in outcomes.estimator.tolist()], np.int64)
    device = {word: number for number, word in enumerate(sorted(set(outcomes.device.tolist())))}
    devices = np.array([device[word] for word in outcomes.device.tolist()], np.int64)
    by = (outcomes.replicate, outcomes.seed, outcomes.threads, devices, rank)
    return outcomes.take(np.lexsort(by))


def _sortable(spec: PluginSpec) -> tuple[Any, ...]:
    """Return a sort key of a spec: numbers numerically, all else as text."""
    params = tuple(
        (name, 0, value, "")
        if isinstance(value, int | float) and not isinstance(value, bool)
        else (name, 1, 0, canonical_json(value))
        for name, value in sorted(spec.params.items())
    )
    return (spec.id, params, spec.worlds, spec.version)


def _board(outcomes: Outcomes, by: By, truth: TruthKind) -> Board:
    facts = ReplicateFacts.of(outcomes, truth)
    rows = list(outcomes.by_row())
    statistics = [aggregate(row, facts) for row in rows]
    specs = [_row_spec(row) for row in rows]
    parts = (statistics, joint_statistics(statistics), rows, specs)
    board_rows = [_row(*part) for part in zip(*parts, distinct_labels(specs), strict=True)]
    spec = outcomes.environment[0]
    origins = {origin: None for origin in outcomes.environment_origin.tolist() if origin}
    return Board(
        by=by,
        environment=spec.id,
        environment_params=spec.params,
        environment_origin=", ".join(origins) or spec.origin,
        environment_version=spec.version,
        worlds=spec.worlds,
        truth=truth,
        truth_se=_root_mean_square(outcomes.truth_expected_se),
        truth_rms=_root_mean_square(facts.truth),
        rows=tuple(ordered(board_rows, by)),
    )


def _root_mean_square(values: FloatArray) -> float | None:
    known = values[~np.isnan(values)]
    return root_mean_square(known) if len(known) else None


def _row_spec(row: Outcomes) -> PluginSpec:
    """Return the row's spec, with the label of its last labeled trial; keys contain no labels."""
    specs: list[PluginSpec] = row.estimator.tolist()
    return next((spec for spec in reversed(specs) if spec.label), specs[0])


def _row(
    statistics: RowStatistics,
    joint: JointFigures,
    row: Outcomes,
    spec: PluginSpec,
    label: str,
) -> Row:
    return Row(
        estimator=spec.id,
        label=label,
        params=spec.params,
        access=tuple(dict.fromkeys(itertools.chain.from_iterable(row.access.tolist()))),
        device=row.device[-1],
        threads=int(row.threads[-1]),
        origin=row.origin[-1] or spec.origin,
        **vars(statistics.figures),
        **vars(joint),
    )
