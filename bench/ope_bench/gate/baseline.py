"""Baselines: the trials of a suite in one small text file that a reviewer can read.

JSON lines: a header (suite, specs, machine, history of acceptances, checksum), then one line per
trial in a stable order, with floats that round-trip. Boards are computed on reading, so a board
cannot disagree with its trials; the checksum detects a file that was edited or cut.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import StoreError, UsageError
from ope_bench.base.files import atomic_write, read_text_file
from ope_bench.contracts.data import TruthKind
from ope_bench.plugins.registry import Kind
from ope_bench.plugins.spec import PluginSpec, distinct_label, resolve
from ope_bench.trials.record import RECORD, Trial, TrialRecord
from ope_bench.trials.status import Device, Status

# The line format of a baseline: one trial per line, omitting values given on an earlier line.

Given = Mapping[str, tuple[str, ...]]
"""Names of the parameters that a suite sets, by the identity of their spec."""

_COLUMNS = {
    group: tuple(column.name for column in RECORD if column.baseline == group)
    for group in ("answer", "data", "word")
}
"""The columns of a record that a baseline holds, by group.

A line holds the numbers and words of the answer that exist. The first line on a replicate also
holds the numbers of its data.
"""

_FORMER = ("exclusive", "fit_seconds", "estimate_seconds")
"""Times of trials that ran alone, in lines of older baselines."""

USUAL: dict[str, Any] = {"seed": 0, "device": Device.CPU, "threads": 1, "salt": ""}
"""Fields of a trial that a line omits when they have these values."""


NOTES = {"environments": "note", "estimators": "access"}
"""The groups of specs in a header, and the entry of a spec that holds its note."""


@dataclass
class SpecNames:
    """Short unique names of specs, with their notes.

    Parameters
    ----------
    specs : specs by group and name, in order of appearance.
    notes : by group and name; of an estimator the access that it declared, of an environment the
        origin of its data where it differs from the spec's.
    """

    specs: dict[str, dict[str, PluginSpec]]
    notes: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {group: {} for group in NOTES}
    )

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> SpecNames:
        """Name all specs that occur in the records."""
        kept = list(records)
        specs: dict[str, dict[str, PluginSpec]] = {group: {} for group in NOTES}
        for record in kept:
            for spec in (record.trial.environment, record.trial.estimator):
                specs[f"{spec.kind}s"].setdefault(identity_of(spec), spec)
        names = cls({group: {} for group in NOTES})
        for group, known in specs.items():
            for spec in known.values():
                name = label = distinct_label(spec, list(known.values()))
                number = 1
                while name in names.specs[group]:
                    number += 1
                    name = f"{label} #{number}"
                names.specs[group][name] = spec
        for record in kept:
            environment, estimator = record.trial.environment, record.trial.estimator
            if record.access:
                names.notes["estimators"][names.name(estimator)] = list(record.access)
            if record.environment_origin not in ("", environment.origin):
                names.notes["environments"][names.name(environment)] = record.environment_origin
        return names

    @cached_property
    def by_identity(self) -> dict[str, str]:
        """Names by the identity of their spec."""
        groups = self.specs.values()
        return {identity_of(spec): name for specs in groups for name, spec in specs.items()}

    def name(self, spec: PluginSpec) -> str:
        """Return the name of a spec."""
        return self.by_identity[identity_of(spec)]

    def as_json(self) -> dict[str, Any]:
        """Return the part of the header that holds specs and names."""
        header: dict[str, dict[str, Any]] = {}
        for group, specs in self.specs.items():
            header[group] = {name: _spec_json(spec) for name, spec in specs.items()}
            for name, note in self.notes[group].items():
                header[group][name][NOTES[group]] = note
        return header

    @classmethod
    def from_json(cls, header: Mapping[str, Any]) -> SpecNames:
        """Read the names from a header."""
        names = cls({group: {} for group in NOTES})
        for group, note in NOTES.items():
            kind: Kind = "environment" if group == "environments" else "estimator"
            for name, entry in header[group].items():
                fields = dict(entry)
                if note in fields:
                    names.notes[group][name] = fields.pop(note)
                names.specs[group][name] = PluginSpec(kind, **fields)
        return names

    def given_json(self, given: Given) -> dict[str, dict[str, list[str]]]:
        """Return the parameters that the suite sets, by the names of their specs."""
        return {
            group: {
                name: list(given[identity])
                for name, spec in specs.items()
                if (identity := identity_of(spec)) in given
            }
            for group, specs in self.specs.items()
        }

    def given_from_json(self, header: Mapping[str, Any]) -> Given:
        """Read the parameters set by the suite from a header; empty in older files."""
        return {
            identity_of(self.specs[group][name]): tuple(map(str, given))
            for group, by_name in header.get("given", {}).items()
            for name, given in by_name.items()
        }


def identity_of(spec: PluginSpec) -> str:
    """Return a text that identifies a spec."""
    return spec.kind + spec.identity_json


def _spec_json(spec: PluginSpec) -> dict[str, Any]:
    plain = {name: getattr(spec, name) for name in ("reference", "id", "label", "origin")}
    if spec.kind == "environment":
        plain |= {"worlds": spec.worlds, "version": spec.version}
    # Written and read back, so that values are plain JSON types.
    plain["params"] = json.loads(canonical_json(spec.params))
    head, colon, tail = spec.reference.rpartition(":")
    if head.endswith(".py"):
        # A committed file must not hold absolute paths of one machine.
        plain["reference"] = os.path.relpath(head) + colon + tail
        plain["origin"] = os.path.relpath(head)
    return plain


Shared = dict[tuple[str, str, int, int], dict[str, Any]]
"""Numbers of a replicate's data, by environment, salt, seed and replicate."""


def lines_of(records: Iterable[TrialRecord], names: SpecNames) -> Iterator[dict[str, Any]]:
    """Return lines in stable order: setting, estimator, device, threads, salt, seed, replicate."""
    places = {
        group: {name: place for place, name in enumerate(specs)}
        for group, specs in names.specs.items()
    }

    def order(record: TrialRecord) -> tuple[Any, ...]:
        trial = record.trial
        environment = places["environments"][names.name(trial.environment)]
        estimator = places["estimators"][names.name(trial.estimator)]
        cell = environment, estimator, trial.device, trial.threads
        return (*cell, trial.salt, trial.seed, trial.replicate)

    shared: Shared = {}
    for record in sorted(records, key=order):
        trial = record.trial
        environment = names.name(trial.environment)
        line: dict[str, Any] = {
            "environment": environment,
            "estimator": names.name(trial.estimator),
            "replicate": trial.replicate,
        }
        unusual = ((name, getattr(trial, name), usual) for name, usual in USUAL.items())
        line |= {name: value for name, value, usual in unusual if value != usual}
        line["status"] = record.status.value
        line |= _numbers(record, "answer") | _numbers(record, "word")
        known = shared.setdefault((environment, trial.salt, trial.seed, trial.replicate), {})
        facts = _numbers(record, "data")
        line |= {name: value for name, value in facts.items() if known.get(name) != value}
        known |= facts
        if record.error_type is not None:
            # The message is omitted: it may hold paths, addresses or lines of data.
            line["error_type"] = record.error_type
        yield line | {"code": record.code_digest}


def _numbers(record: TrialRecord, group: str) -> dict[str, Any]:
    values = ((name, getattr(record, name)) for name in _COLUMNS[group])
    return {
        name: value
        for name, value in values
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


def records_of(lines: Iterable[Mapping[str, Any]], names: SpecNames) -> Iterator[TrialRecord]:
    """Read records from lines, in order.

    Raises
    ------
    KeyError, TypeError, ValueError : a line is not what `lines_of` writes.
    """
    shared: Shared = {}
    for line in lines:
        rest = {name: value for name, value in line.items() if name not in _FORMER}
        environment, estimator = rest.pop("environment"), rest.pop("estimator")
        usual = {name: rest.pop(name, value) for name, value in USUAL.items()}
        trial = Trial(
            names.specs["environments"][environment],
            names.specs["estimators"][estimator],
            rest.pop("replicate"),
            seed=usual["seed"],
            device=Device(usual["device"]),
            threads=usual["threads"],
            salt=usual["salt"],
        )
        known = shared.setdefault((environment, trial.salt, trial.seed, trial.replicate), {})
        known |= {name: rest.pop(name) for name in _COLUMNS["data"] if name in rest}
        numbers = [*known.values()]
        numbers += [rest.get(name) for name in _COLUMNS["answer"]]
        if not all(one is None or isinstance(one, int | float) for one in numbers):
            msg = "a figure is not a number"
            raise TypeError(msg)
        if not all(isinstance(rest.get(name, ""), str) for name in _COLUMNS["word"]):
            msg = "a word is not text"
            raise TypeError(msg)
        origin = names.notes["environments"].get(environment, trial.environment.origin)
        yield TrialRecord(
            trial,
            rest.pop("code"),
            Status(rest.pop("status")),
            access=tuple(names.notes["estimators"].get(estimator, ())),
            origin=trial.estimator.origin,
            environment_origin=origin,
            **known,
            **rest,
        )


KIND = "ope-bench baseline"
MOST_BYTES = 1 << 30
"""Largest baseline; one of a hundred thousand trials takes a tenth."""

SCHEMA = 1


@dataclass(frozen=True)
class SuiteFacts:
    """Facts of a suite that its repetition needs beside the trials.

    Parameters
    ----------
    replicates : number that a gate runs; older files may hold more.
    timeout, memory : limits of one trial, in seconds and bytes.
    """

    name: str
    truth: TruthKind
    replicates: int
    _: KW_ONLY
    title: str = ""
    timeout: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Acceptance:
    """One acceptance of a baseline's numbers.

    Parameters
    ----------
    at : UTC, to the second.
    reason : why the numbers were accepted.
    changes : number of rows by verdict against the previous numbers; empty for the first.
    """

    at: str
    reason: str
    changes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """The accepted trials of a suite.

    Parameters
    ----------
    suite : facts that a repetition needs beside the trials.
    records : the records of the trials.
    machine : facts of the machine that ran them.
    history : the acceptances, oldest first.
    given : the parameters that the suite sets, by `identity_of` their spec; all others take the
        defaults of their class. A spec without an entry keeps all its parameters.
    """

    suite: SuiteFacts
    records: tuple[TrialRecord, ...]
    machine: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Acceptance, ...] = ()
    given: Given = field(default_factory=dict)


def is_baseline(path: Path) -> bool:
    """Return whether a file begins like a baseline; its contents are not checked."""
    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as stream:
                return b'"' + KIND.encode() + b'"' in stream.read(200)
    return False


def save(path: Path, baseline: Baseline) -> None:
    """Write a baseline atomically: a reader sees the old file or the new one.

    A missing folder is created.

    Raises
    ------
    StoreError : the folder cannot be made, or the file cannot be written.
    """
    names = SpecNames.of(baseline.records)
    lines = [_dump(line) for line in lines_of(baseline.records, names)]
    header: dict[str, Any] = {
        "kind": KIND,
        "schema": SCHEMA,
        "suite": vars(baseline.suite),
        "trials": len(lines),
        "history": [vars(one) | {"changes": dict(one.changes)} for one in baseline.history],
        "machine": dict(baseline.machine),
        **names.as_json(),
    }
    if baseline.given:
        header["given"] = names.given_json(baseline.given)
    header["sha256"] = _checksum(header, lines)
    text = "\n".join([_dump(header), *lines]) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        msg = f"cannot make the folder {path.parent}: {exc.strerror or exc}"
        raise StoreError(msg) from exc
    with atomic_write(path, StoreError) as aside:
        aside.write_text(text, encoding="utf-8")


def load(path: Path) -> Baseline:
    """Read a baseline.

    Raises
    ------
    StoreError : the file is missing, of another kind, newer, truncated or edited; with the line.
    """
    lines = read_text_file(path, MOST_BYTES, StoreError).splitlines()
    try:
        header = json.loads(lines[0])
    except (IndexError, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        what = "it is empty" if not lines else "its first line is not a baseline's header"
        msg = f"{path} is not an ope-bench baseline: {what}"
        raise StoreError(msg)
    if header.get("schema") != SCHEMA:
        msg = (
            f"{path} has schema {header.get('schema')!r}; this version of ope-bench reads "
            f"schema {SCHEMA}: update ope-bench or save the baseline anew"
        )
        raise StoreError(msg)
    body = lines[1:]
    if len(body) != header.get("trials"):
        msg = (
            f"{path} holds {len(body)} trials where its first line announces "
            f"{header.get('trials')}: it was cut or edited; restore it or save it anew"
        )
        raise StoreError(msg)
    parsed: list[dict[str, Any]] = []
    for number, line in enumerate(body, start=2):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            msg = f"{path}, line {number}: not a JSON object; restore the file or save it anew"
            raise StoreError(msg)
        parsed.append(value)
    try:
        as_saved = _checksum(header, body) == header.get("sha256")
    # A number that is not finite, which no baseline holds.
    except ValueError:
        as_saved = False
    if not as_saved:
        msg = (
            f"{path} was edited after it was saved (its checksum does not match); restore it, "
            "or run `ope-bench baseline accept` for new numbers"
        )
        raise StoreError(msg)
    records: list[TrialRecord] = []
    try:
        names = SpecNames.from_json(header)
        suite = SuiteFacts(**header["suite"])
        given = names.given_from_json(header)
        history = tuple(Acceptance(**one) for one in header["history"])
        machine = dict(header["machine"])
        # Extended record by record, so that an error message can name the line.
        records.extend(records_of(parsed, names))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        where = f"line {len(records) + 2}" if records else "its header or line 2"
        msg = f"{path}, {where}: {type(exc).__name__}: {exc}; it is no valid baseline"
        raise StoreError(msg) from exc
    for group, of in (("environments", "environment"), ("estimators", "estimator")):
        used = {id(getattr(record.trial, of)) for record in records}
        if lost := [name for name, one in names.specs[group].items() if id(one) not in used]:
            msg = f"{path} lists {of} '{lost[0]}' without any trial of it; save it anew"
            raise StoreError(msg)
    return Baseline(suite, tuple(records), machine, history, given)


def _checksum(header: Mapping[str, Any], lines: Iterable[str]) -> str:
    covered = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256("\n".join([canonical_json(covered), *lines]).encode()).hexdigest()


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


# Pair a baseline's records with the trials that repeat them on today's code.


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
        pairs = [Pair(one, after[one.key].trial, after[one.key]) for one in records]
        first = records[0].trial
        rows.append(PairedRow(first.environment, first.estimator, first.device, tuple(pairs)))
    return rows


def with_outcomes(row: PairedRow, outcomes: Mapping[str, TrialRecord]) -> PairedRow:
    """Fill in the outcomes of the row's trials, looked up by key."""

    def filled(pair: Pair) -> Pair:
        return replace(pair, after=outcomes.get(pair.trial.key) if pair.trial else None)

    return replace(row, pairs=tuple(map(filled, row.pairs)))
