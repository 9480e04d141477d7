"""Trial records -> boards.

One board a setting of an environment, a kind of truth and a question (``by``). A row is one
estimator with its parameters on one device. Nothing is averaged over survivors in silence: every
row says how many replicates it has, how many gave a finite estimate, and what failed; ``score``
and rank count failures with the logging average's error in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ope_bench.across import summaries
from ope_bench.board import Board, By, Row, TruthKind
from ope_bench.naming import setting_label, setting_labels
from ope_bench.ranking import Figures, compared, ordered, reordered
from ope_bench.records import PluginSpec, TrialRecord
from ope_bench.seeding import canonical_json
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED, RESAMPLES
from ope_bench.tally import Cell, Facts, tally

__all__ = [
    "Board",
    "By",
    "Row",
    "TruthKind",
    "boards",
    "boards_in_turn",
    "document",
    "reordered",
    "setting_label",
]

RATIO_MEASURES = ("target_log_ratio_rmse", "log_ratio_rmse", "kl_error")
"""Diagnostics by which estimated density ratios are ranked, the first that exists.

At target rows first: far out among the logs a true log-ratio of -70 and an estimate of -20 both
mean no weight at all, and would drown every error that matters.
"""


def document(found: Iterable[Board]) -> dict[str, Any]:
    """What ``leaderboard --format json`` prints."""
    kept = list(found)
    return {
        "schema": 1,
        "boards": [board.as_json() for board in kept],
        "bootstrap": {"level": 0.95, "resamples": RESAMPLES, "seed": BOOTSTRAP_SEED},
        "across": [one.as_json() for one in summaries(kept)],
    }


def boards(
    records: Iterable[TrialRecord], *, by: By = "rmse", truth: TruthKind = "empirical"
) -> list[Board]:
    """All boards that the records give, settings ordered by id and parameters.

    The order of the records plays no part, so a resumed run gives the boards of an uninterrupted
    one.

    Parameters
    ----------
    records : the newest of each key; where a key is there twice, the later one counts.
    by : the question that orders the rows. Boards by time and by ratio hold only rows that have
        such a figure.
    truth : what errors are measured against.
    """
    settings: dict[str, list[TrialRecord]] = {}
    for record in records:
        settings.setdefault(record.trial.environment.identity_json, []).append(record)
    return boards_in_turn(settings.values(), by=by, truth=truth)


def boards_in_turn(
    settings: Iterable[Iterable[TrialRecord]],
    *,
    by: By = "rmse",
    truth: TruthKind = "empirical",
) -> list[Board]:
    """`boards` of records that come one setting at a time, none of which is kept.

    Parameters
    ----------
    settings : the records of a setting of an environment, each setting once.
    by, truth : as for `boards`.
    """
    found: list[tuple[PluginSpec, Board]] = []
    for group in settings:
        newest = {record.key: record for record in group}
        records = sorted(newest.values(), key=_place())
        if records:
            found.append((records[0].trial.environment, _board(records, by, truth)))
    found.sort(key=lambda one: (_sortable(one[0]), one[0].identity_json))
    labels = setting_labels([spec for spec, _ in found])
    return [replace(board, label=label) for (_, board), label in zip(found, labels, strict=True)]


def _place() -> Callable[[TrialRecord], tuple[Any, ...]]:
    """The order of records; the thousands that share a spec share its place."""
    known: dict[int, tuple[Any, ...]] = {}

    def place(spec: PluginSpec) -> tuple[Any, ...]:
        if id(spec) not in known:
            known[id(spec)] = _sortable(spec)
        return known[id(spec)]

    def of(record: TrialRecord) -> tuple[Any, ...]:
        trial = record.trial
        specs = place(trial.environment), place(trial.estimator)
        return *specs, trial.device, trial.threads, trial.seed, trial.replicate, trial.key

    return of


def _sortable(spec: PluginSpec) -> tuple[Any, ...]:
    """Numbers in their own order, everything else as text."""
    params = tuple(
        (name, 0, value, "")
        if isinstance(value, int | float) and not isinstance(value, bool)
        else (name, 1, 0, canonical_json(value))
        for name, value in sorted(spec.params.items())
    )
    return (spec.id, params, spec.worlds, spec.version)


def _board(records: Sequence[TrialRecord], by: By, truth: TruthKind) -> Board:
    facts = Facts.of(records, truth)
    rows: dict[str, list[TrialRecord]] = {}
    for record in records:
        trial = record.trial
        what = f"{trial.estimator.identity_json} {trial.device} {trial.threads}"
        rows.setdefault(what, []).append(record)
    cells = [tally(group, facts) for group in rows.values()]
    specs = [_labelled(group) for group in rows.values()]
    figures = compared(cells)
    found = [
        _row(*parts)
        for parts in zip(cells, specs, rows.values(), figures, setting_labels(specs), strict=True)
    ]
    spec = records[0].trial.environment
    truths = np.array([value for value in facts.truth.values() if value is not None])
    errors = [record.truth_expected_se for record in records]
    se = [value for value in errors if value is not None]
    origins = {record.environment_origin: None for record in records if record.environment_origin}
    return Board(
        by,
        spec.id,
        spec.params,
        ", ".join(origins) or spec.origin,
        spec.version,
        spec.worlds,
        truth,
        float(np.sqrt(np.mean(np.square(se)))) if se else None,
        float(np.sqrt(np.mean(np.square(truths)))) if len(truths) else None,
        "",
        tuple(ordered(found, by)),
    )


def _labelled(group: Sequence[TrialRecord]) -> PluginSpec:
    """The row's spec, with a label if any of its records has one: labels are no part of keys."""
    named = [record.trial.estimator for record in group if record.trial.estimator.label]
    return (named or [group[0].trial.estimator])[-1]


def _row(
    cell: Cell, spec: PluginSpec, group: Sequence[TrialRecord], figures: Figures, label: str
) -> Row:
    summary, rmse = cell.summary, figures.rmse
    measure = next((name for name in RATIO_MEASURES if name in cell.diagnostics), None)
    last = group[-1]
    return Row(
        rank=None,
        estimator=spec.id,
        label=label,
        params=spec.params,
        access=tuple(dict.fromkeys(word for record in group for word in record.access)),
        device=last.trial.device,
        threads=last.trial.threads,
        origin=last.origin or spec.origin,
        replicates=len(group),
        finite=len(cell.errors),
        rmse=rmse,
        rmse_low=figures.low,
        rmse_high=figures.high,
        heavy_tailed=figures.heavy,
        log10_rmse=math.log10(rmse) if rmse else None,
        relative_rmse=rmse / cell.truth_rms if rmse is not None and cell.truth_rms else None,
        score=figures.score,
        imputed=cell.imputations,
        bias=summary.bias,
        sd=summary.sd,
        median_absolute_error=summary.median_absolute_error,
        quantiles=summary.quantiles,
        worst=summary.worst,
        cvar=summary.cvar,
        error_cdf_area=cell.area,
        tied=figures.tied,
        status=cell.status,
        positivity_rate=cell.positivity.value,
        failure_rate=cell.failure.value,
        failure_low=cell.failure.low,
        failure_high=cell.failure.high,
        warned=cell.warnings.warned,
        warnings_judged=cell.warnings.judged,
        warning_precision=cell.warnings.precision,
        warning_recall=cell.warnings.recall,
        coverage=cell.coverage.share.value,
        coverage_low=cell.coverage.share.low,
        coverage_high=cell.coverage.share.high,
        interval_width=cell.coverage.width,
        **cell.support,
        **cell.cost,
        ratio_error=cell.diagnostics.get(measure) if measure else None,
        ratio_measure=measure,
        diagnostics=cell.diagnostics,
    )
