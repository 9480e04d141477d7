"""Pair a baseline's records with the trials that repeat them on today's code."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from ope_bench.base.errors import UsageError
from ope_bench.gate.baseline import Baseline, Given, identity_of
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device


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
    incomparable : why nothing can be compared; empty where it can.
    gone : why the trials cannot be planned any more; empty where they can.
    notes : other changes of parameters, in words.
    """

    environment: PluginSpec
    estimator: PluginSpec
    device: Device
    pairs: tuple[Pair, ...]
    _: KW_ONLY
    incomparable: str = ""
    gone: str = ""
    notes: tuple[str, ...] = ()


def paired_rows(baseline: Baseline) -> list[PairedRow]:
    """Pair a baseline's rows with trials that use today's specs.

    Specs are resolved again: a parameter that was added with a default since does not lose the
    row, and an estimator whose default has changed runs with the new default, as for users. An
    environment keeps its parameters, since errors on other data cannot be compared.
    """
    today = _Resolver(baseline.given)
    # Older baselines may hold further replicates, a reserve that is no longer used.
    planned = range(baseline.suite.replicates)
    rows = []
    for records in _by_row(one for one in baseline.records if one.trial.replicate in planned):
        first = records[0].trial
        environment, environment_gone, environment_notes = today.resolved(first.environment)
        estimator, estimator_gone, estimator_notes = today.resolved(first.estimator)
        incomparable = ""
        if environment is not None and environment.version != first.environment.version:
            incomparable = (
                f"{environment.id} is now version {environment.version}, the baseline has "
                f"{first.environment.version}"
            )
        pairs = []
        for record in records:
            trial = None
            if environment is not None and estimator is not None:
                trial = replace(record.trial, environment=environment, estimator=estimator)
            pairs.append(Pair(record, trial))
        row = PairedRow(
            first.environment,
            first.estimator,
            first.device,
            tuple(pairs),
            incomparable=incomparable,
            gone=environment_gone or estimator_gone,
            notes=(*environment_notes, *estimator_notes),
        )
        rows.append(row)
    return rows


def _by_row(records: Iterable[TrialRecord]) -> Iterable[list[TrialRecord]]:
    """Return the records of each row, ordered by salt, seed and replicate."""
    groups: dict[tuple[Any, ...], list[TrialRecord]] = {}
    for record in records:
        trial = record.trial
        specs = trial.environment.identity_json, trial.estimator.identity_json
        groups.setdefault((*specs, trial.device, trial.threads), []).append(record)
    for group in groups.values():
        group.sort(key=operator.attrgetter("trial.salt", "trial.seed", "trial.replicate"))
    return groups.values()


KEPT = "the row keeps the baseline's, since errors on other data compare nothing"


class _Resolver:
    """Resolves each spec once.

    Parameters
    ----------
    given : the parameters that the baseline's suite sets.
    """

    def __init__(self, given: Given) -> None:
        self._given = given
        self._known: dict[str, tuple[PluginSpec | None, str, list[str]]] = {}

    def resolved(self, before: PluginSpec) -> tuple[PluginSpec | None, str, list[str]]:
        """Return today's spec, or None and why there is none; and what changed, in words."""
        key = before.reference + identity_of(before)
        if key in self._known:
            return self._known[key]
        # All parameters where the baseline does not say which ones the suite sets.
        given = self._given.get(identity_of(before), tuple(before.params))
        params = {name: value for name, value in before.params.items() if name in given}

        def today(params: Mapping[str, Any]) -> PluginSpec:
            worlds = {"worlds": before.worlds} if before.kind == "environment" else {}
            label = before.label
            return resolve(before.kind, before.reference, {**params, **worlds}, label=label)

        try:
            now = today(params if before.kind == "estimator" else before.params)
        except UsageError as exc:
            return self._known.setdefault(key, (None, str(exc), []))
        notes = [*_changed_names(before, now), *_changed_defaults(before, now)]
        if before.kind == "environment":
            with contextlib.suppress(UsageError):
                notes += [f"{one}; {KEPT}" for one in _changed_defaults(before, today(params))]
        return self._known.setdefault(key, (now, "", notes))


def _changed_names(before: PluginSpec, now: PluginSpec) -> list[str]:
    """Describe the parameters that were added or removed."""
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
    return [*added, *removed]


def _changed_defaults(before: PluginSpec, now: PluginSpec) -> list[str]:
    return [
        f"{now.id}: default {name} {before.params[name]!r} -> {value!r}"
        for name, value in now.params.items()
        if name in before.params and before.params[name] != value
    ]


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
) -> list[PairedRow]:
    """Pair two sets of records by key; records without a partner are left out.

    Parameters
    ----------
    before : the first set of records.
    after : the second set, by key.
    """
    rows = []
    for records in _by_row(record for record in before if record.key in after):
        partners = (after[record.key] for record in records)
        pairs = [
            Pair(one, other.trial, other) for one, other in zip(records, partners, strict=True)
        ]
        first = records[0].trial
        rows.append(PairedRow(first.environment, first.estimator, first.device, tuple(pairs)))
    return rows


def with_outcomes(row: PairedRow, outcomes: Mapping[str, TrialRecord]) -> PairedRow:
    """Fill in the outcomes of the row's trials, looked up by key."""

    def filled(pair: Pair) -> Pair:
        return replace(pair, after=outcomes.get(pair.trial.key) if pair.trial else None)

    return replace(row, pairs=tuple(map(filled, row.pairs)))
