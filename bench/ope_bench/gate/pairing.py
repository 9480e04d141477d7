"""Pair a baseline's records with the trials that repeat them on today's code."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from ope_bench.canonical import canonical_json
from ope_bench.errors import UsageError
from ope_bench.gate.baseline import Baseline
from ope_bench.gate.baseline_format import Given, identity_of
from ope_bench.plugins.resolution import resolve
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.devices import Device
from ope_bench.trials.record import Trial, TrialRecord

__all__ = [
    "Pair",
    "PairedRow",
    "map_given_parameters",
    "pair_records",
    "paired_rows",
    "with_outcomes",
]


@dataclass(frozen=True)
class Pair:
    """One replicate of the baseline and its repetition.

    Parameters
    ----------
    before : the baseline's record.
    trial : the repetition on today's code; None where it cannot be planned any more.
    after : the outcome of the repetition; None where there is none.
    """

    before: TrialRecord
    trial: Trial | None
    after: TrialRecord | None = None


@dataclass(frozen=True)
class PairedRow:
    """One estimator on one setting: the baseline's records and their repetitions.

    Parameters
    ----------
    environment, estimator : specs as the baseline stores them.
    device : device of the trials.
    pairs : replicates that the gate compares, in order.
    reserve : further replicates of the baseline, used where a row stays undecided.
    incomparable : why nothing can be compared; empty where it can.
    gone : why the trials cannot be planned any more; empty where they can.
    notes : other changes of parameters, in words.
    """

    environment: PluginSpec
    estimator: PluginSpec
    device: Device
    pairs: tuple[Pair, ...]
    _: KW_ONLY
    reserve: tuple[Pair, ...] = ()
    incomparable: str = ""
    gone: str = ""
    notes: tuple[str, ...] = ()


def paired_rows(baseline: Baseline, *, seed: int | None = None) -> list[PairedRow]:
    """Pair a baseline's rows with trials that use today's specs.

    Specs are resolved again: a parameter that was added with a default since does not lose the
    row, and an estimator whose default has changed runs with the new default, as for users. An
    environment keeps its parameters, since errors on other data cannot be compared.

    Parameters
    ----------
    baseline : the committed baseline.
    seed : run on this seed's data instead of the baseline's; the records of a pair then share
        only the replicate's number.
    """
    now = _Resolver(baseline.given)
    groups: dict[tuple[Any, ...], list[TrialRecord]] = {}
    for record in baseline.records:
        groups.setdefault(_row_of(record.trial), []).append(record)
    rows = []
    for records in groups.values():
        records.sort(key=lambda record: (record.trial.seed, record.trial.replicate))
        rows.append(_row(records, baseline.suite.replicates, seed, now))
    return rows


def _row_of(trial: Trial) -> tuple[Any, ...]:
    """Return what the trials of one row share."""
    specs = trial.environment.identity_json, trial.estimator.identity_json
    return *specs, trial.device, trial.threads


def _row(
    records: list[TrialRecord], replicates: int, seed: int | None, now: _Resolver
) -> PairedRow:
    first = records[0].trial
    environment, lost_environment = now.spec(first.environment)
    estimator, lost_estimator = now.spec(first.estimator)
    gone = lost_environment or lost_estimator
    notes = [*_changed(first.environment, environment), *_changed(first.estimator, estimator)]
    notes += now.notes(first.environment)
    incomparable = ""
    if environment is not None and environment.version != first.environment.version:
        incomparable = (
            f"{environment.id} is now version {environment.version}, the baseline has "
            f"{first.environment.version}"
        )
    elif seed not in (None, first.seed) and first.environment.worlds == "fixed":
        incomparable = (
            f"its one world is drawn anew for seed {seed}: errors there cannot be compared"
        )
    pairs = [
        Pair(record, _again(record.trial, environment, estimator, seed)) for record in records
    ]
    return PairedRow(
        first.environment,
        first.estimator,
        first.device,
        tuple(pair for pair in pairs if pair.before.trial.replicate < replicates),
        reserve=tuple(pair for pair in pairs if pair.before.trial.replicate >= replicates),
        incomparable=incomparable,
        gone=gone,
        notes=tuple(notes),
    )


def _again(
    trial: Trial, environment: PluginSpec | None, estimator: PluginSpec | None, seed: int | None
) -> Trial | None:
    if environment is None or estimator is None:
        return None
    return replace(
        trial,
        environment=environment,
        estimator=estimator,
        seed=trial.seed if seed is None else seed,
    )


def _changed(before: PluginSpec, now: PluginSpec | None) -> list[str]:
    """Describe the parameters that were added, removed or have a new default."""
    if now is None:
        return []
    added = [
        f"{now.id} has a new parameter {name}={value!r}"
        for name, value in now.params.items()
        if name not in before.params
    ]
    removed = [
        f"{now.id} has no parameter {name} any more (was {value!r})"
        for name, value in before.params.items()
        if name not in now.params
    ]
    return [*added, *removed, *_changed_defaults(before, now)]


def _changed_defaults(before: PluginSpec, now: PluginSpec) -> list[str]:
    return [
        f"{now.id}: default {name} {before.params[name]!r} -> {value!r}"
        for name, value in now.params.items()
        if name in before.params and before.params[name] != value
    ]


KEPT = "the row keeps the baseline's, since errors on other data compare nothing"


class _Resolver:
    """Resolves each spec once.

    Parameters
    ----------
    given : the parameters that the baseline's suite sets.
    """

    def __init__(self, given: Given) -> None:
        self._given = given
        self._known: dict[str, tuple[PluginSpec | None, str]] = {}
        self._notes: dict[str, list[str]] = {}

    def spec(self, before: PluginSpec) -> tuple[PluginSpec | None, str]:
        """Return today's spec, or None and why there is none."""
        name = before.kind + before.reference + canonical_json(before.identity)
        if name not in self._known:
            params = dict(before.params)
            if before.kind == "estimator":
                params = self._set_by_suite(before)
            try:
                self._known[name] = _resolved(before, params), ""
            except UsageError as exc:
                self._known[name] = None, str(exc)
        return self._known[name]

    def notes(self, environment: PluginSpec) -> list[str]:
        """Return changed defaults of an environment, of which the row keeps the old values."""
        name = canonical_json(environment.identity)
        if name not in self._notes:
            try:
                now = _resolved(environment, self._set_by_suite(environment))
                changed = _changed_defaults(environment, now)
            except UsageError:
                changed = []
            self._notes[name] = [f"{one}; {KEPT}" for one in changed]
        return self._notes[name]

    def _set_by_suite(self, before: PluginSpec) -> dict[str, Any]:
        """Return the parameters set by the suite; all where the baseline does not say."""
        given = self._given.get(identity_of(before), tuple(before.params))
        return {name: value for name, value in before.params.items() if name in given}


def _resolved(before: PluginSpec, params: dict[str, Any]) -> PluginSpec:
    if before.kind == "environment":
        params = {**params, "worlds": before.worlds}
    return resolve(before.kind, before.reference, params, label=before.label)


def map_given_parameters(baseline: Baseline, rows: Iterable[PairedRow]) -> Given:
    """Map today's identities of settings to the parameters that the baseline's suite sets."""
    given = {}
    for row in rows:
        trial = next((pair.trial for pair in row.pairs if pair.trial is not None), None)
        if trial is not None:
            pairs = ((row.environment, trial.environment), (row.estimator, trial.estimator))
            for before, now in pairs:
                noted = baseline.given.get(identity_of(before))
                if noted is not None:
                    given[identity_of(now)] = tuple(name for name in noted if name in now.params)
    return given


def pair_records(
    before: Iterable[TrialRecord], after: Mapping[str, TrialRecord]
) -> tuple[list[PairedRow], int]:
    """Pair two sets of records by key; also count the records without a partner.

    Parameters
    ----------
    before : the first set of records.
    after : the second set, by key.
    """
    groups: dict[tuple[Any, ...], list[Pair]] = {}
    alone = 0
    for record in before:
        partner = after.get(record.key)
        if partner is None:
            alone += 1
            continue
        groups.setdefault(_row_of(record.trial), []).append(Pair(record, partner.trial, partner))
    rows = []
    for pairs in groups.values():
        pairs.sort(key=operator.attrgetter("before.trial.seed", "before.trial.replicate"))
        first = pairs[0].before.trial
        rows.append(PairedRow(first.environment, first.estimator, first.device, tuple(pairs)))
    return rows, alone


def with_outcomes(row: PairedRow, outcomes: Mapping[str, TrialRecord]) -> PairedRow:
    """Fill in the outcomes of the row's trials, looked up by key."""

    def filled(pair: Pair) -> Pair:
        return replace(pair, after=outcomes.get(pair.trial.key) if pair.trial else None)

    return replace(
        row, pairs=tuple(map(filled, row.pairs)), reserve=tuple(map(filled, row.reserve))
    )
