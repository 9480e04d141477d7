"""Evaluate policies on a log: `estimate`, through the same trials as every benchmark run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from ope_bench.contracts.interval import IntervalKind
from ope_bench.errors import UsageError
from ope_bench.execution import Event, Executor
from ope_bench.logs.environment import BASELINE, LIFT, LIFT_ERROR, terms_of
from ope_bench.logs.interval_choice import interval_note
from ope_bench.logs.intervals import with_interval
from ope_bench.logs.log_trials import EstimatorLike, estimator_pairs, run_on_log
from ope_bench.logs.paired import (
    baseline_difference,
    normal_interval,
    standard_error,
    without_rounding,
)
from ope_bench.logs.problem import unit_of
from ope_bench.logs.reading.log_data import LogData
from ope_bench.logs.result import Estimates
from ope_bench.logs.result_rows import Difference, EstimateRow, TargetEstimates
from ope_bench.logs.storage import stored_log
from ope_bench.plugins.labels import distinct_labels
from ope_bench.suites.yaml_document import load_file
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Status

__all__ = [
    "CONFOUNDING",
    "INTERVALS",
    "default_estimators",
    "estimate",
    "estimate_row",
    "interval_of",
]

ROUNDING = 1e-9

INTERVALS: tuple[IntervalKind, ...] = get_args(IntervalKind)

CONFOUNDING = (
    "no log can show it: had the logging policy, or anything else that moved the reward, used "
    "what is not in the context, every value here would be wrong"
)


def default_estimators(rows: int) -> tuple[list[str], list[str]]:
    """Return the selectors of the estimators that run where none is named, and the slow others.

    Parameters
    ----------
    rows : of the log.
    """
    listed = load_file(Path(__file__).with_name("estimators.yaml")).value
    slow = listed["slow"] if rows > listed["slow_rows"] else []
    return [one for one in listed["estimators"] if one not in slow], slow


def estimate(
    log: LogData,
    estimators: EstimatorLike | Iterable[EstimatorLike] | None = None,
    *,
    level: float = 0.95,
    interval: IntervalKind = "asymptotic",
    seed: int = 0,
    executor: Executor | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Estimates:
    """Evaluate the log's policies with each estimator.

    Parameters
    ----------
    log : from `Log.read` or `Log.from_frame`.
    estimators : objects, ids or selectors; by default those that can run and are meant for it.
    level : of the intervals.
    interval : their kind.
    seed : from which all random streams derive.
    executor : where trials run; by default this process.
    on_event : called with each event of the executor.

    Raises
    ------
    UsageError : an estimator, the level or the interval is unknown or wrong.
    """
    if not 0 < level < 1:
        msg = f"level {level:g} is not between 0 and 1"
        raise UsageError(msg)
    if interval not in INTERVALS:
        msg = f"interval '{interval}' is not one of {', '.join(INTERVALS)}"
        raise UsageError(msg)
    default, slow = default_estimators(log.n)
    given = estimator_pairs(default if estimators is None else estimators)
    asked = with_interval(given, log, interval, level)
    pairs = [pair for pair, _ in asked]
    with stored_log(log) as folder:
        records = run_on_log(log, pairs, folder, seed, executor, on_event)
        labels = distinct_labels([spec for spec, _ in pairs])
        rows = {
            name: [
                estimate_row(record, label, level, interval, units=log.n_units, missing=missing)
                for record, label, (_, missing) in zip(records[name], labels, asked, strict=True)
            ]
            for name in log.targets
        }
        differences = _differences(log, records, labels, folder, level, interval)
    targets = tuple(
        _target(log, name, rows[name], whole=estimators is not None) for name in log.targets
    )
    return Estimates(
        log=log.facts(),
        logging_average=float(log.reward.mean()),
        targets=targets,
        differences=differences,
        notes=(
            *_interval_note(interval, itertools.chain.from_iterable(rows.values())),
            *dict.fromkeys(interval_note(log, name, records[name]) for name in log.targets),
            *(_slow_note(slow) if estimators is None else ()),
            *log.notes,
            CONFOUNDING,
        ),
    )


def estimate_row(
    record: TrialRecord,
    label: str,
    level: float,
    kind: IntervalKind = "asymptotic",
    *,
    units: int,
    missing: str = "",
) -> EstimateRow:
    """Return what one trial on a log says of a policy.

    Parameters
    ----------
    label : name of the estimator on tables.
    level, kind : of the interval.
    units : of the log.
    missing : what the log lacks for an interval of that kind.
    """
    value, error = record.estimate, record.standard_error
    low, high = interval_of(record, level, kind, units)
    offered = low is not None
    lift, lift_error = _lift(record)
    lift_low, lift_high = _paired_interval(lift, lift_error, level, kind, units)
    seconds = [s for s in (record.fit_seconds, record.estimate_seconds) if s is not None]
    return EstimateRow(
        estimator=record.trial.estimator.id,
        label=label,
        params=dict(record.trial.estimator.params),
        status=record.status.value,
        value=value,
        low=low,
        high=high,
        level=level,
        interval=kind if offered else None,
        standard_error=error,
        lift=lift,
        lift_low=lift_low,
        lift_high=lift_high,
        ess_fraction=record.ess_fraction,
        max_weight_share=record.max_weight_share,
        access=record.access,
        message=_message(record, offered, kind, missing),
        seconds=sum(seconds) if seconds else None,
    )


def _lift(record: TrialRecord) -> tuple[float | None, float | None]:
    """Return value minus mean logged reward, and its standard error."""
    if record.estimate is None:
        return None, None
    average = record.logging_average or 0.0
    own, error = (record.diagnostics.get(name) for name in (LIFT, LIFT_ERROR))
    return without_rounding(
        record.estimate - average if own is None else float(own),
        None if error is None else float(error),
        max(abs(record.estimate), abs(average)),
    )


def interval_of(
    record: TrialRecord, level: float, kind: IntervalKind, units: int | None
) -> tuple[float | None, float | None]:
    """Return the estimator's own interval of that kind and level, or the normal one.

    Parameters
    ----------
    record : of a trial.
    level, kind : of the interval.
    units : of the data; None for the quantiles of the normal distribution.
    """
    own = record.interval
    if own is not None and own.kind == kind and abs(own.level - level) < ROUNDING:
        return own.low, own.high
    if kind != "asymptotic":
        return None, None
    return normal_interval(record.estimate, record.standard_error, level, units)


def _paired_interval(
    value: float | None, error: float | None, level: float, kind: IntervalKind, units: int
) -> tuple[float | None, float | None]:
    """Return the interval of a lift or difference; there are asymptotic ones only."""
    return normal_interval(value, error if kind == "asymptotic" else None, level, units)


def _message(
    record: TrialRecord, offered: bool, interval: IntervalKind, missing: str
) -> str | None:
    if record.status is not Status.OK:
        return record.error_message
    parts = list(record.warnings)
    if not offered:
        parts.append(f"offers no {interval} interval{missing and f' here: {missing}'}")
    return "; ".join(parts) or None


def _interval_note(kind: IntervalKind, rows: Iterable[EstimateRow]) -> tuple[str, ...]:
    rows = list(rows)
    if kind == "asymptotic" or any(row.interval for row in rows):
        return ()
    return (f"no estimator here offers {kind} intervals; `--interval asymptotic` gives some",)


def _slow_note(slow: Sequence[str]) -> tuple[str, ...]:
    named = " ".join(f"--est {one}" for one in slow)
    return (f"not run, since they take long on so many rows: {named}",) if slow else ()


def _target(
    log: LogData, name: str, rows: Sequence[EstimateRow], *, whole: bool
) -> TargetEstimates:
    """Assemble a policy's rows; of the default estimators, those that could run."""
    missing = [] if whole else [row for row in rows if row.status == Status.UNAVAILABLE]
    if len(missing) == len(rows):
        missing = []
    target = log.targets[name]
    return TargetEstimates(
        name=name,
        unsupported_mass=target.unsupported_mass(log.action, log.logging),
        rows=tuple(row for row in rows if row not in missing),
        left_out=tuple((row.label, row.message or "") for row in missing),
    )


def _differences(
    log: LogData,
    records: Mapping[str, Sequence[TrialRecord]],
    labels: Sequence[str],
    folder: Path,
    level: float,
    kind: IntervalKind,
) -> tuple[Difference, ...]:
    """Compare every policy with every earlier one, by each estimator with a value for both."""
    found = []
    for (first, second), (number, label) in itertools.product(
        itertools.combinations(log.targets, 2), enumerate(labels)
    ):
        a, b = records[second][number], records[first][number]
        if a.estimate is None or b.estimate is None:
            continue
        value, error = _difference(log, folder, (second, a), (first, b))
        low, high = _paired_interval(value, error, level, kind, log.n_units)
        found.append(
            Difference(
                estimator=a.trial.estimator.id,
                label=label,
                target=second,
                versus=first,
                difference=value,
                low=low,
                high=high,
            )
        )
    return tuple(found)


def _difference(
    log: LogData, folder: Path, first: tuple[str, TrialRecord], second: tuple[str, TrialRecord]
) -> tuple[float, float | None]:
    """Return the difference of two policies by one estimator, with its paired standard error."""
    (_, a), (_, b) = first, second
    mean_a, mean_b = a.estimate or 0.0, b.estimate or 0.0
    if all(BASELINE in record.diagnostics for record in (a, b)):
        weight, other = (log.weights(name) for name, _ in (first, second))
        if weight is not None and other is not None:
            return baseline_difference(weight, other, log.reward, unit_of(log))
    mine, theirs = (terms_of(folder, record.diagnostics) for record in (a, b))
    error = None
    if mine is not None and theirs is not None:
        error = standard_error(np.asarray(mine - theirs), unit_of(log))
    return without_rounding(mean_a - mean_b, error, max(abs(mean_a), abs(mean_b)))
