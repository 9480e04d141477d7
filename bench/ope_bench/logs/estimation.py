"""Evaluate policies on a log: `estimate`, through the same trials as every benchmark run."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from ope_bench.base.errors import ParameterError, UsageError, short_errors
from ope_bench.base.units import all_passed, counted, format_estimate
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.parameters import validated
from ope_bench.contracts.plugins import STANDARD_ERROR_WITHHELD, Estimator, IntervalKind
from ope_bench.contracts.random import stream
from ope_bench.contracts.view import Access
from ope_bench.execution import Event, Executor, Finished, Message
from ope_bench.execution.runner import RunCounts, interruptible
from ope_bench.logs.checks import CONFOUNDING as CONFOUNDING
from ope_bench.logs.checks import default_estimators, findings_of, what_lacks
from ope_bench.logs.finding import Check, Finding, mean_text
from ope_bench.logs.log_data import ESTIMATED, LogData, stored_log
from ope_bench.logs.problem import (
    BASELINE,
    LIFT,
    LIFT_ERROR,
    TERMS,
    OwnLog,
    baseline_difference,
    effective_size,
    normal_interval,
    problem_of,
    unit_of,
    without_rounding,
)
from ope_bench.logs.recommendation import (
    DISAGREEMENT,
    LIKELIHOOD,
    Recommendation,
    Stated,
    few_rewards,
    likelihood,
    recommendation_for,
)
from ope_bench.logs.result import (
    Difference,
    EstimateRow,
    Estimates,
    Segment,
    TargetEstimates,
    span,
)
from ope_bench.logs.rewards import each_reward
from ope_bench.logs.segments import segment_codes, segments_of
from ope_bench.plugins.spec import PluginSpec, distinct_labels, resolve, spec_of
from ope_bench.report.tables import figure, percent
from ope_bench.statistics.unit_errors import standard_error
from ope_bench.statistics.weight_checks import (
    LARGEST_SHARE,
)
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.isolation import random_states_restored, thread_limit
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.trials.trial import Workspace, build, run_trial

STRENGTHS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Strengths Λ of a hidden cause whose bounds are shown."""

_ROUNDING = 1e-9

_TRIED = 2
"""Resamples by which the cost of a bootstrap is measured."""

BOOTSTRAP = {"interval": "bootstrap"}

INTERVALS: tuple[str, ...] = (*get_args(IntervalKind), DISAGREEMENT)

ENVIRONMENT = "own-log"
"""Id of the environment, from which random streams derive."""

EstimatorLike = Estimator | str

EstimatorPair = tuple[PluginSpec, Estimator | None]
"""The spec of an estimator, and the object where one was given."""


@each_reward
@short_errors
def estimate(
    log: LogData,
    estimators: EstimatorLike | Iterable[EstimatorLike] | None = None,
    *,
    level: float = 0.95,
    interval: str = "asymptotic",
    sensitivity: bool = False,
    by: str | None = None,
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
    interval : their kind; ``disagreement`` runs the recommended estimator and its panel too.
    sensitivity : whether estimators with a parameter ``hidden_cause`` say how strong one would
        turn their lift's sign.
    by : a column of the log; its at most 20 levels are segments with a value each.
    seed : from which all random streams derive.
    executor : where trials run; by default this process.
    on_event : called with each event of the trials.

    Raises
    ------
    UsageError : an estimator, the level or the interval is unknown or wrong.
    """
    check_interval(level, interval)
    cut = None if by is None else segment_codes(log, by)
    predictions = log.predicted_reward is not None
    default, slow, most = default_estimators(log.n, predictions=predictions)
    given = estimator_pairs(
        default if estimators is None else estimators, typed=estimators is not None
    )
    shown = len(given)
    kind = cast(IntervalKind, "asymptotic" if interval == DISAGREEMENT else interval)
    if estimators is None or interval == DISAGREEMENT or sensitivity:
        needed = (recommendation_for(log, name).estimators for name in log.targets)
        known = {spec.identity_json for spec, _ in given}
        panel = estimator_pairs(dict.fromkeys(itertools.chain.from_iterable(needed)))
        given += [pair for pair in panel if pair[0].identity_json not in known]
    changed = [with_interval(pair, log, kind, level) for pair in given]
    pairs = [pair for pair, _ in changed]
    lacks = [lack for _, lack in changed]
    if sensitivity:
        asked = {"hidden_cause": STRENGTHS}
        pairs = [
            _with_params(pair, asked | {"level": level}) or _with_params(pair, asked) or pair
            for pair in pairs
        ]
    specs = [spec for spec, _ in pairs]
    labels = distinct_labels(specs[:shown]) + distinct_labels(specs)[shown:]
    with stored_log(log) as folder:
        if any(BOOTSTRAP.items() <= _params(pair).items() for pair in pairs):
            on_event(Message(_bootstrap_cost(log, pairs, folder, seed, executor)))
        records = run_on_log(log, pairs, folder, seed, executor, on_event)
        differences = _differences(log, records, labels, folder, level, kind)
        terms = {name: terms_of(records[name], labels, folder) for name in log.targets}
        segments = segments_by_policy(
            log, cut, [spec for spec, _ in given], records, folder, level
        )
    small = slow_pairs = None
    if slow and estimators is None:
        small = log.part(some_units(log, most, seed))
        slow_pairs = [with_interval(pair, log, kind, level)[0] for pair in estimator_pairs(slow)]
        with stored_log(small) as folder:
            slow_records = run_on_log(small, slow_pairs, folder, seed, executor, on_event)
    targets, advice = [], []
    findings = findings_of(log)
    # Of an average that is 0 up to its error there is no percentage.
    today = log.reward_terms
    unsure = abs(today.mean()) <= 2 * (standard_error(today, unit_of(log)) or 0.0)
    for name, target in log.targets.items():
        rule = recommendation_for(log, name)
        few = few_rewards(log, name, 1.0, records[name])
        rows = [
            estimate_row(
                record,
                label,
                level,
                kind,
                rule,
                few,
                units=log.n_units,
                missing=lack,
                bootstraps=kind != "bootstrap" and bool(_with_params(pair, BOOTSTRAP)),
            )
            for record, label, lack, pair in zip(records[name], labels, lacks, pairs, strict=True)
        ]
        if few and kind == "asymptotic":
            rows = [_with_likelihood(row, log, name, level, few) for row in rows]
        specs = [spec for spec, _ in given]
        rows, found, said = with_disagreement(rows, specs, rule, log, name, level, records[name])
        if interval == DISAGREEMENT:
            rows = [_as_disagreement(row, rule, level) for row in rows]
        rows = rows[:shown]
        if unsure:
            rows = [replace(row, lift_relative=None) for row in rows]
        centers = {text: row.label for text, row in by_selector(rows, specs[:shown], rule).items()}
        if sensitivity:
            rows = [
                replace(row, sensitivity=_bounds(record, found))
                for row, record in zip(rows, records[name], strict=False)
            ]
            advice += [_turn(row) for row in rows if row.sensitivity is not None]
        offered = any(row.disagreement_low is not None for row in rows)
        several = f"{name}: " if len(log.targets) > 1 else ""
        if not (offered or estimators is None or interval == DISAGREEMENT):
            said = tip(log, name, rule, records[name])
        advice += [several + said] if said else []
        if small is not None:
            part = few_rewards(small, name)
            rows += [
                of_sample(
                    estimate_row(record, spec.id, level, kind, rule, part, units=small.n_units),
                    small.n,
                )
                for record, (spec, _) in zip(slow_records[name], slow_pairs or (), strict=True)
            ]
        against = contradictions(rows, terms[name], unit_of(log))
        advice += [several + text for text in against]
        # Of the default estimators those are shown that could run, unless none could.
        unavailable = [row for row in rows if row.status == Status.UNAVAILABLE]
        if estimators is not None or len(unavailable) == len(rows):
            unavailable = []
        targets.append(
            TargetEstimates(
                name=name,
                unsupported_mass=target.unsupported_mass(log.action, log.logging, log.weight),
                rows=tuple(row for row in rows if row not in unavailable),
                left_out=tuple((row.label, row.message or "") for row in unavailable),
                recommended=None if against else centers.get(rule.center),
                withheld=withheld_by(findings, name),
                segments=() if withheld_by(findings, name) else segments.get(name, ()),
                by=by or "",
            )
        )
    notes = []
    offered = any(row.interval for target in targets for row in target.rows)
    if interval != "asymptotic" and not offered and not any(lacks):
        notes.append(
            f"no estimator here offers {interval} intervals; `--interval asymptotic` gives some"
        )
    if small is not None:
        options = " ".join(f"--est {one}" for one in slow)
        notes.append(
            f"on {small.n:,} of {log.n:,} rows, drawn by unit, since they take long: "
            f"{', '.join(slow)}; on all rows: {options}"
        )
    notes.append(failed_checks_note(findings))
    return Estimates(
        log=log.facts(),
        logging_average=float(log.reward_terms.mean()),
        targets=tuple(targets),
        differences=differences,
        notes=(*notes, *advice, *log.notes, CONFOUNDING),
        source=log,
    )


def _bootstrap_cost(
    log: LogData,
    pairs: Sequence[EstimatorPair],
    folder: Path,
    seed: int,
    executor: Executor | None,
) -> str:
    """Return what bootstrap intervals cost, measured on the first resamples of each estimator."""
    asked = [pair for pair in pairs if BOOTSTRAP.items() <= _params(pair).items()]
    short = [_with_params(pair, {"resamples": _TRIED}) or pair for pair in asked]
    counts = [_params(pair)["resamples"] for pair in asked]
    records = run_on_log(log, short, folder, seed, executor, lambda event: None)
    each = [
        count / _TRIED * (one.estimate_seconds or 0.0)
        for found in records.values()
        for one, count in zip(found, counts, strict=True)
    ]
    jobs = 1 if executor is None else executor.jobs
    return (
        f"bootstrap: {max(counts)} resamples of {counted(len(counts), 'estimator')}, "
        f"about {format_estimate(max(*each, sum(each) / jobs))}"
    )


def segments_by_policy(
    log: LogData,
    cut: tuple[IntArray, list[str]] | None,
    specs: Sequence[PluginSpec],
    records: Mapping[str, Sequence[TrialRecord]],
    folder: Path,
    level: float,
) -> dict[str, tuple[Segment, ...]]:
    """Return the segments of each policy, by the estimator whose error counts, or another.

    Parameters
    ----------
    cut : codes and names of the segments; None for none.
    specs, records : of the estimators, from `run_on_log`.
    folder : where the log is stored.
    """
    found = {}
    for name in log.targets if cut is not None else ():
        rule = recommendation_for(log, name)
        known = by_selector(records[name], specs, rule)
        others = sorted(records[name], key=lambda one: one.trial.estimator.id not in COMPARED)
        candidates = [one for one in (*map(known.get, rule.errors), *others) if one is not None]
        record = next((one for one in candidates if one.diagnostics.get(TERMS)), None)
        if cut is not None:
            found[name] = segments_of(log, name, *cut, record, folder, level)
    return found


def check_interval(level: float, interval: str, kinds: Sequence[str] = INTERVALS) -> None:
    """Check the level and the kind of intervals."""
    if not 0 < level < 1:
        msg = f"level {level:g} is not between 0 and 1"
        raise UsageError(msg)
    if interval not in kinds:
        rows = (
            "" if kinds == INTERVALS else " for rows in batches; sample rows into a log that fits"
        )
        msg = f"interval '{interval}' is not one of {', '.join(kinds)}{rows}"
        raise UsageError(msg)


def some_units(log: LogData, most: int, seed: int) -> IntArray:
    """Return rows of random units, about so many, in their order."""
    unit = unit_of(log)
    units, code, size = np.unique(unit, return_inverse=True, return_counts=True)
    order = stream("part of a log", seed).permutation(len(units))
    last = int(np.searchsorted(np.cumsum(size[order]), most, side="right"))
    chosen = np.zeros(len(units), dtype=bool)
    chosen[order[: max(last, 1)]] = True
    return np.flatnonzero(chosen[code.reshape(-1)])


def of_sample(row: EstimateRow, n: int) -> EstimateRow:
    """Return an estimate that says on how many rows it is."""
    if row.status != Status.OK:
        return row
    parts = (f"on {n:,} random rows", row.message)
    return replace(row, message="; ".join(part for part in parts if part))


_CONTRADICTION = 3.0
"""Standard errors by which two estimators of one value may differ."""

COMPARED = ("ipws", "sndr", "dr")
"""Estimators that are compared. `ipw` against `ipws` is the mean weight, which has a check of its
own, and estimators without honest errors contradict every other one."""


def contradictions(
    rows: Sequence[EstimateRow], terms: Mapping[str, FloatArray] | None = None, unit: Any = None
) -> list[str]:
    """Return what estimators of one policy say against each other, and what nothing checks.

    Of `COMPARED` two differ by more than chance allows where their difference is over three times
    its standard error, or over four times where one row has a tenth of the weight.

    Parameters
    ----------
    rows : the estimates.
    terms : by label, each of mean equal to the value; without, errors count as independent.
    unit : (n,), of each row of the log.
    """
    said = []
    known = [row for row in rows if row.value is not None]
    apart = []
    for one, other in itertools.combinations(known, 2):
        if not {one.estimator, other.estimator} <= set(COMPARED):
            continue
        error: float | None = math.hypot(one.standard_error or 0.0, other.standard_error or 0.0)
        if terms is not None:
            if one.label not in terms or other.label not in terms:
                continue
            error = standard_error(terms[one.label] - terms[other.label], unit)
        size = max(abs(one.value or 0.0), abs(other.value or 0.0))
        distance = abs((one.value or 0.0) - (other.value or 0.0))
        if error and error > _ROUNDING * size:
            share = max(one.max_weight_share or 0.0, other.max_weight_share or 0.0)
            limit = _CONTRADICTION if share <= LARGEST_SHARE else _CONTRADICTION + 1
            apart.append((distance / error - limit, distance / error, one, other))
    if apart:
        over, distance, one, other = max(apart, key=lambda pair: pair[0])
        if over > 0:
            said.append(
                f"{one.label} {figure(one.value)} and {other.label} {figure(other.value)} differ "
                f"by {distance:.1f} standard errors: at least one of them is wrong here"
            )
    by_weights = [row for row in known if row.estimator != "logging-average"]
    alone = all(row.standard_error is None and row.ess_fraction is None for row in by_weights)
    if by_weights and alone:
        names = ", ".join(row.label for row in by_weights)
        said.append(f"reward models alone have a value ({names}), and nothing checks them")
    return said


def terms_of(
    records: Sequence[TrialRecord], labels: Sequence[str], folder: Path
) -> dict[str, FloatArray]:
    """Return the terms of the estimates that are compared, by label."""
    found = {}
    for record, label in zip(records, labels, strict=True):
        file = record.diagnostics.get(TERMS)
        if record.trial.estimator.id in COMPARED and file:
            found[label] = np.load(folder / str(file))
    return found


def failed_checks_note(found: Sequence[Finding]) -> str:
    """Return how many checks of a log failed, which, and what explains them."""
    findings = [one for one in found if one.passed is not None]
    failed = [one for one in findings if not one.passed]
    if not failed:
        return all_passed(len(findings), " of the log")
    names = ", ".join(
        f"{one.name} {mean_text(one.value)} instead of 1"
        if one.check is Check.MEAN_WEIGHT and one.value is not None
        else one.name
        for one in failed
    )
    return (
        f"{len(failed)} of {counted(len(findings), 'check')} of the log "
        f"say{'s' if len(failed) == 1 else ''} LOOK ({names}): "
        "`ope-bench log check` explains them"
    )


def withheld_by(findings: Sequence[Finding], name: str) -> str:
    """Return why no value of a policy may be stated, in one sentence; "" where it may."""
    found = (one for one in findings if one.withholds and one.policy in (None, name))
    return next((one.first_action for one in found), "")


def estimate_row(
    record: TrialRecord,
    label: str,
    level: float,
    kind: IntervalKind,
    rule: Recommendation,
    few: str,
    *,
    units: int,
    missing: str = "",
    bootstraps: bool = False,
) -> EstimateRow:
    """Return one estimator's estimate of one policy's value, from its trial on a log.

    Parameters
    ----------
    label : name of the estimator on tables.
    level, kind : of the interval.
    rule : the recommendation, which says whose interval is withheld.
    few : from `few_rewards`.
    units : of the log.
    missing : what the log lacks for an interval of that kind.
    bootstraps : whether the estimator has a bootstrap interval instead.
    """
    bootstraps &= STANDARD_ERROR_WITHHELD not in record.diagnostics
    low, high = interval_of(record, level, kind, units)
    withheld = "" if low is None else withheld_interval(record.trial.estimator.id, kind, rule, few)
    if withheld:
        low = high = None
    offered = low is not None
    lift = lift_error = None
    average = record.logging_average or 0.0
    if record.estimate is not None:
        own, error = (record.diagnostics.get(name) for name in (LIFT, LIFT_ERROR))
        lift, lift_error = without_rounding(
            record.estimate - average if own is None else float(own),
            None if error is None else float(error),
            max(abs(record.estimate), abs(average)),
        )
    lift_low, lift_high = paired_interval(lift, lift_error, level, kind, units)
    # Of equal policies the lift is 0, whatever the rewards; of no reward at all it only seems so.
    if withheld and not (lift_error == 0 and math.isclose(record.ess_fraction or 0.0, 1.0)):
        lift_low = lift_high = None
    if kind == "anytime" and offered:
        ends = (record.diagnostics.get(f"lift_{end}") for end in ("low", "high"))
        lift_low, lift_high = (None if end is None else float(end) for end in ends)
    if record.status is Status.OK:
        parts = list(record.warnings)
        if withheld:
            parts.append(withheld)
        elif not offered:
            other = "; interval bootstrap gives one" if bootstraps else ""
            parts.append(f"offers no {kind} interval{missing and f' here: {missing}'}{other}")
        message = "; ".join(parts) or None
    else:
        message = record.error_message
    seconds = [s for s in (record.fit_seconds, record.estimate_seconds) if s is not None]
    return EstimateRow(
        estimator=record.trial.estimator.id,
        label=label,
        params=dict(record.trial.estimator.params),
        status=record.status.value,
        value=record.estimate,
        low=low,
        high=high,
        level=level,
        interval=kind if offered else None,
        standard_error=record.standard_error,
        lift=lift,
        lift_low=lift_low,
        lift_high=lift_high,
        ess_fraction=record.ess_fraction,
        max_weight_share=record.max_weight_share,
        access=record.access,
        message=message,
        seconds=sum(seconds) if seconds else None,
        lift_relative=None if lift is None or average == 0.0 else lift / abs(average),
    )


def withheld_interval(estimator: str, kind: str, rule: Recommendation, few: str) -> str:
    """Return why an estimator's own interval is not printed, "" where it is."""
    reason = few if kind in ("asymptotic", "bootstrap") else ""
    if estimator in rule.withheld and kind not in ("guaranteed", "anytime"):
        reason = (
            f"its own held the value in {percent(rule.withheld[estimator])} of clean drawn logs"
        )
    return reason and f"interval withheld: {reason}"


def withheld_for(estimator: str, kind: str, log: LogData, target: str, scale: float = 1.0) -> str:
    """Return why an estimator's own interval is not printed of a policy, "" where it is."""
    rule, few = recommendation_for(log, target), few_rewards(log, target, scale)
    return withheld_interval(estimator, kind, rule, few)


def _with_likelihood(
    row: EstimateRow, log: LogData, target: str, level: float, few: str
) -> EstimateRow:
    """Return the row of `ipw` with the interval by empirical likelihood, others as they are."""
    found = likelihood(log, target, level) if row.estimator == "ipw" else None
    if found is None or found.low is None or row.value is None:
        return row
    message = (row.message or "").replace(f"interval withheld: {few}", found.reason)
    told = replace(row, low=found.low, high=found.high, interval=LIKELIHOOD)
    today = standard_error(log.reward_terms, unit_of(log))
    if row.lift is not None and row.lift_low is None and today is not None:
        low, high = found.lift(row.value, row.value - row.lift, today, level)
        told = replace(told, lift_low=low, lift_high=high)
    return replace(told, message=message.strip("; ") or None)


def with_disagreement(
    rows: Sequence[EstimateRow],
    specs: Sequence[PluginSpec],
    rule: Recommendation,
    log: LogData,
    target: str,
    level: float,
    records: Sequence[TrialRecord] = (),
) -> tuple[list[EstimateRow], Stated, str]:
    """Return the rows, the interval of the recommended one that may be stated, and a note on it.

    Parameters
    ----------
    rows, specs : one for each estimator.
    rule : the recommendation.
    log, target : the log and one of its policies.
    level : of the interval.
    records : the estimates' trials.
    """
    by_text = by_selector(rows, specs, rule)
    found = rule.stated(by_text, log, target, level, records)
    if found.low is None:
        return list(rows), found, found.reason
    center = by_text.get(rule.center)
    if center is not None and found.kind == DISAGREEMENT:
        own = replace(center, disagreement_low=found.low, disagreement_high=found.high)
        rows = [own if row is center else row for row in rows]
    # Empirical likelihood needs no estimator, and so not the recommended one either.
    of = (
        ""
        if center is None or center.value is None
        else f"{center.label} {figure(center.value)}, "
    )
    said = (
        f"recommended: {of}interval of "
        f"{str(found.kind).replace('-', ' ')} {span(found.low, found.high)}; at 95 % it held the "
        f"value in {percent(found.coverage)} of drawn logs like this one without faults"
        f"{found.reason and f' ({found.reason})'}"
    )
    return list(rows), found, said


def tip(
    log: LogData, target: str, rule: Recommendation, records: Sequence[TrialRecord] = ()
) -> str:
    """Return how often the recommended interval held on logs like this one; "" if unknown."""
    cell = rule.cell(log, target, records)
    if cell is None or not cell.states:
        return ""
    return (
        f"tip: the interval around {rule.center}, shown where no estimator is named, held the "
        f"value in {percent(cell.held)} of drawn logs like this one without faults"
    )


_ENDS = {"low": -1.0, "high": 1.0}


def _bounds(record: TrialRecord, stated: Stated) -> dict[str, Any] | None:
    """Return what an estimator says of hidden causes; None where it says nothing.

    An estimator that does not know its sampling error has the half width of the recommended
    interval, where one is stated.
    """
    facts = record.diagnostics
    if "hidden_cause_flip" not in facts:
        return None
    low, high = stated.low, stated.high
    half = None if low is None or high is None else (high - low) / 2
    bounds = []
    for one in STRENGTHS:
        found: dict[str, Any] = {end: facts[f"hidden_cause_{end}[{one:g}]"] for end in _ENDS}
        for end, sign in _ENDS.items():
            known = None if half is None else found[end] + sign * half
            found[f"{end}_with_error"] = facts.get(
                f"hidden_cause_{end}_with_error[{one:g}]", known
            )
        bounds.append({"lambda": one, **found})
    return {"lambda_flip": facts["hidden_cause_flip"], "bounds": bounds}


def _turn(row: EstimateRow) -> str:
    found = (row.sensitivity or {})["lambda_flip"]
    what = "no hidden cause turns the sign of its lift"
    if found is not None:
        what = (
            f"a hidden cause that changes the odds of actions by {found:.3g} turns its lift's sign"
        )
    shown = "; ".join(
        f"{one['lambda']:g}: {span(one['low'], one['high'])} "
        f"({span(one['low_with_error'], one['high_with_error'])})"
        for one in (row.sensitivity or {})["bounds"][1:]
    )
    return f"{row.label}: {what}; its value by odds (with the error of a finite log): {shown}"


def by_selector(
    rows: Sequence[Any], specs: Sequence[PluginSpec], rule: Recommendation
) -> dict[str, Any]:
    """Return the rows, or records, of a recommendation's estimators by their selectors."""
    wanted = {resolve_one(text).identity_json: text for text in rule.estimators}
    return {
        wanted[spec.identity_json]: row
        for spec, row in zip(specs, rows, strict=True)
        if spec.identity_json in wanted
    }


def _as_disagreement(row: EstimateRow, rule: Recommendation, level: float) -> EstimateRow:
    """Return a row whose interval is that of disagreement, or none."""
    offered = row.disagreement_low is not None
    message = row.message
    if not offered and row.status == Status.OK:
        message = f"offers no disagreement interval: it is that of {rule.center}"
    return replace(
        row,
        low=row.disagreement_low,
        high=row.disagreement_high,
        interval=DISAGREEMENT if offered else None,
        lift_low=None,
        lift_high=None,
        message=message,
    )


def resolve_one(selector: str) -> PluginSpec:
    """Return the setting of a selector that has one."""
    (spec,) = specs_of("estimator", selector)
    return spec


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
    if own is not None and own.kind == kind and abs(own.level - level) < _ROUNDING:
        return own.low, own.high
    if kind != "asymptotic":
        return None, None
    return normal_interval(record.estimate, record.standard_error, level, units)


def paired_interval(
    value: float | None, error: float | None, level: float, kind: IntervalKind, units: int
) -> tuple[float | None, float | None]:
    """Return the interval of a lift or difference; there are asymptotic ones only."""
    return normal_interval(value, error if kind == "asymptotic" else None, level, units)


def _differences(
    log: LogData,
    records: Mapping[str, Sequence[TrialRecord]],
    labels: Sequence[str],
    folder: Path,
    level: float,
    kind: IntervalKind,
) -> tuple[Difference, ...]:
    """Compare every policy with every nearer one, by each estimator with a value for both."""
    unit = unit_of(log)
    found = []
    for (versus, target), (number, label) in itertools.product(
        itertools.combinations(nearest_first(log), 2), enumerate(labels)
    ):
        a, b = records[target][number], records[versus][number]
        if a.estimate is None or b.estimate is None:
            continue
        weight, other = log.weights(target), log.weights(versus)
        centered = BASELINE in a.diagnostics and BASELINE in b.diagnostics
        if centered and weight is not None and other is not None:
            value, error = baseline_difference(weight, other, log.reward, unit, log.weight)
        else:
            files = [record.diagnostics.get(TERMS) for record in (a, b)]
            error = None
            if all(files):
                mine, theirs = (np.load(folder / str(file)) for file in files)
                error = standard_error(np.asarray(mine - theirs), unit)
            size = max(abs(a.estimate), abs(b.estimate))
            value, error = without_rounding(a.estimate - b.estimate, error, size)
        estimator, both = a.trial.estimator.id, (target, versus)
        withheld = error != 0 and any(withheld_for(estimator, kind, log, name) for name in both)
        ends = paired_interval(value, None if withheld else error, level, kind, log.n_units)
        found.append(Difference(estimator, label, target, versus, value, *ends))
    return tuple(found)


def nearest_first(log: LogData) -> list[str]:
    """Return the policies by effective sample size, largest first; of equal ones the earlier."""
    return sorted(log.targets, key=lambda name: -(effective_size(log, name) or 0.0))


# Trials on a log.


def estimator_pairs(
    given: EstimatorLike | Iterable[EstimatorLike], *, typed: bool = False
) -> list[EstimatorPair]:
    """Return the spec of each estimator, with the object where one was given.

    Parameters
    ----------
    given : selectors and objects.
    typed : whether a user named them.

    Raises
    ------
    UsageError : there is none, or one is unknown.
    """
    pairs: list[EstimatorPair] = []
    for item in [given] if isinstance(given, str | Estimator) else given:
        if isinstance(item, Estimator):
            pairs.append((spec_of(item), item))
        else:
            pairs += [(spec, None) for spec in specs_of("estimator", item, typed=typed)]
    if not pairs:
        msg = "name at least one estimator"
        raise UsageError(msg)
    return pairs


def run_on_log(
    log: LogData,
    pairs: Sequence[EstimatorPair],
    folder: Path,
    seed: int,
    executor: Executor | None,
    on_event: Callable[[Event], None],
) -> dict[str, list[TrialRecord]]:
    """Run all trials; return the records of each policy in the order of the estimators.

    Parameters
    ----------
    log : the log.
    pairs : from `estimator_pairs`.
    folder : where the log is stored.
    seed : from which all random streams derive.
    executor : where trials run; this process where None.
    on_event : called with each event of the trials.
    """
    if log.estimated_propensity:
        pairs = [_with_params(pair, {"propensity": ESTIMATED}) or pair for pair in pairs]
    trials: dict[str, list[Trial]] = {}
    objects: dict[str, Estimator | None] = {}
    for name in log.targets:
        params = {"folder": str(folder), "target": name}
        cls = f"{OwnLog.__module__}:{OwnLog.__qualname__}"
        environment = PluginSpec("environment", cls, ENVIRONMENT, params, origin="ope_bench")
        trials[name] = [Trial(environment, spec, 0, seed=seed) for spec, _ in pairs]
        for trial, (_, given) in zip(trials[name], pairs, strict=True):
            objects[trial.key] = given

    def run(trial: Trial, workspace: Workspace) -> TrialRecord:
        environment = OwnLog(**trial.environment.params)
        environment.log = log
        given = objects[trial.key]
        estimator = build(trial.estimator) if given is None else given
        return run_trial(
            trial, workspace, environment=environment, estimator=estimator, restore=False
        )

    found: dict[str, TrialRecord] = {}
    # Two estimators of one setting are one trial.
    distinct = {trial.key: trial for group in trials.values() for trial in group}
    # Some fit models for long before they ask for what is not there.
    selectors, *_ = default_estimators(0)
    listed = {spec.id for one in selectors for spec in specs_of("estimator", one)}
    for name, group in trials.items():
        form = log.targets[name].form
        asked = problem_of(log, name, np.random.default_rng(0))
        for trial in group:
            given = objects[trial.key]
            estimator = build(trial.estimator) if given is None else given
            if trial.estimator.id in listed and (lack := what_lacks(asked, form, estimator)):
                access = tuple(estimator.access.words())
                found[trial.key] = TrialRecord(
                    trial, "", Status.UNAVAILABLE, access=access, error_message=lack
                )
                distinct.pop(trial.key, None)
    for event in trial_events(list(distinct.values()), executor, run):
        on_event(event)
        if isinstance(event, Finished):
            found[event.record.key] = event.record
    return {name: [found[trial.key] for trial in group] for name, group in trials.items()}


def trial_events(
    trials: Sequence[Trial],
    executor: Executor | None,
    run: Callable[[Trial, Workspace], TrialRecord],
    budget: float | None = None,
) -> Iterator[Event]:
    """Run trials and yield their events, until all have ended or the budget has.

    When the budget ends, running trials of an executor are abandoned, and it can then not be used
    again; a trial in this process ends only by itself.

    Parameters
    ----------
    trials : in the order in which they matter.
    executor : where they run; this process where None.
    run : runs one trial in this process.
    budget : seconds; None for no limit.
    """
    if executor is None:
        begun = time.monotonic()
        workspace = Workspace()
        with thread_limit(1), random_states_restored():
            for trial in trials:
                if budget is not None and time.monotonic() - begun > budget:
                    return
                yield Finished(run(trial, workspace), 0)
        return
    outcome = RunCounts()
    with contextlib.ExitStack() as stack:
        stack.enter_context(interruptible(executor, outcome))
        if budget is not None:
            timer = threading.Timer(budget, executor.stop, kwargs={"now": True})
            # A run that fails must not wait for the end of its budget.
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
        yield from executor.run(trials)
    if outcome.interrupted:
        raise KeyboardInterrupt


def _params(pair: EstimatorPair) -> dict[str, Any]:
    spec, given = pair
    return (build(spec) if given is None else given).get_params(deep=False)


def _with_params(pair: EstimatorPair, asked: Mapping[str, object]) -> EstimatorPair | None:
    """Return an estimator with parameters changed; None where it does not take them."""
    spec, given = pair
    params = _params(pair)
    if not set(asked) <= set(params):
        return None
    try:
        cls = type(build(spec) if given is None else given)
        changed = cls(**validated(cls, {**params, **asked}))
    except ParameterError:
        return None
    if given is not None:
        return spec_of(changed, label=spec.label), changed
    params = {**spec.params, **asked}
    return resolve("estimator", spec.reference, params, label=spec.label), None


# The interval: estimators are asked for it; a note says which kind held the value elsewhere.


def with_interval(
    pair: EstimatorPair, log: LogData, kind: IntervalKind, level: float
) -> tuple[EstimatorPair, str]:
    """Return an estimator with its parameters ``interval`` and ``level`` set, where it can.

    It stays as it is where it has no such parameters or not this kind, where its own ``interval``
    is set already, and where the log lacks what the kind needs; the text says then what.
    """
    params = _params(pair)
    if kind == "asymptotic" or params.get("interval") != "asymptotic":
        return pair, ""
    wanted: dict[str, object] = {"interval": kind, "level": level}
    bets = kind in ("guaranteed", "anytime")
    sizes = bets and log.unit is not None and params.get("largest_unit") is None
    if sizes and log.spec is not None and "largest_unit" in params:
        wanted["largest_unit"] = log.spec.largest_unit
    if bets and "upper_end" in params and log.logging is None:
        wanted["upper_end"] = "mirrored"
    asked = _with_params(pair, wanted)
    if asked is None:
        return pair, ""
    changed = asked[1] or build(asked[0])
    # The kinds that need no known range of the rewards.
    rangeless = kind == "bootstrap" or (kind == "empirical-likelihood" and np.ptp(log.reward) > 0)
    if log.weight is not None and not changed.row_weights:
        return pair, "the log has row weights"
    if not bets and log.n_units < 2:
        return pair, "the log has one unit"
    if not rangeless and log.reward_range is None and params.get("reward_range") is None:
        return pair, "give `reward_range: [LOW, HIGH]`"
    if sizes and wanted.get("largest_unit") is None:
        return pair, "give `largest_unit: N`, the most rows that a unit can have"
    if Access.LOGGING_POLICY in changed.access & ~changed.optional_access and log.logging is None:
        return pair, "give `logging: {table: FILE}`, the logging policy's whole distribution"
    return asked, ""
