"""Baselines: the trials of a suite in one small text file that a reviewer can read.

JSON lines: a header (suite, specs, machine, history of acceptances, checksum), then one line a
trial in a stable order, with floats that round-trip. Boards are derived on reading, so no board
can disagree with its trials; the checksum tells a file that was edited or cut.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ope_bench.errors import StoreError
from ope_bench.leaderboard import TruthKind, setting_label
from ope_bench.records import PluginSpec, Status, Trial, TrialRecord
from ope_bench.seeding import canonical_json

__all__ = ["Acceptance", "Baseline", "SuiteFacts", "is_baseline", "load", "save"]

KIND = "ope-bench baseline"
SCHEMA = 1

FIGURES = (
    "estimate",
    "standard_error",
    "fallback",
    "truth_expected",
    "truth_expected_se",
    "truth_empirical",
    "logging_average",
    "unsupported_mass",
    "observed_unsupported_mass",
    "n_logged_actions",
    "n_target_actions",
    "ess_fraction",
    "max_weight_share",
    "error_type",
)
"""Fields of a record that a line holds where they exist; the rest can be had by running again."""

USUAL: dict[str, Any] = {"seed": 0, "device": "cpu", "threads": 1}
"""Fields of a trial that a line leaves out where they are as usual."""

TIMES = ("fit_seconds", "estimate_seconds")
"""Held only for trials that ran alone; other times compare nothing."""


@dataclass(frozen=True)
class SuiteFacts:
    """What of a suite its re-run needs beyond the trials themselves.

    Parameters
    ----------
    replicates : that a gate runs; the file may hold more in reserve, for rows left undecided.
    timeout, memory : limits of one trial.
    """

    name: str
    truth: TruthKind
    replicates: int
    title: str = ""
    timeout: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Acceptance:
    """One time that someone declared the numbers right.

    Parameters
    ----------
    at : UTC, to the second.
    reason : in words.
    changes : rows by verdict against the numbers before; empty for the first.
    """

    at: str
    reason: str
    changes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """The trials of a suite, as they were accepted."""

    suite: SuiteFacts
    records: tuple[TrialRecord, ...]
    machine: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Acceptance, ...] = ()


def is_baseline(path: Path) -> bool:
    """Whether a file claims to be a baseline; says nothing about its health."""
    try:
        with path.open("rb") as stream:
            return b'"' + KIND.encode() + b'"' in stream.read(200)
    except OSError:
        return False


def save(path: Path, baseline: Baseline) -> None:
    """Write the file in one step: readers see the old one or the new one.

    Raises
    ------
    StoreError : the folder is missing or not writable.
    """
    names = _Names.of(baseline.records)
    order = names.order()
    records = sorted(baseline.records, key=order)
    lines = [_dump(_line(record, names)) for record in records]
    header: dict[str, Any] = {
        "kind": KIND,
        "schema": SCHEMA,
        "suite": vars(baseline.suite),
        "trials": len(lines),
        "history": [vars(one) | {"changes": dict(one.changes)} for one in baseline.history],
        "machine": dict(baseline.machine),
        "environments": {name: _spec_json(spec) for name, spec in names.environments.items()},
        "estimators": {name: _spec_json(spec) for name, spec in names.estimators.items()},
    }
    header["sha256"] = _checksum(header, lines)
    text = "\n".join([_dump(header), *lines]) + "\n"
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as exc:
        msg = f"cannot write {path}: {exc.strerror or exc}"
        raise StoreError(msg) from exc
    finally:
        aside.unlink(missing_ok=True)


def load(path: Path) -> Baseline:
    """Read a baseline.

    Raises
    ------
    StoreError : missing, foreign, newer, truncated or edited, with the line where it shows.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as exc:
        msg = f"cannot read baseline {path}: {exc.strerror or exc}"
        raise StoreError(msg) from exc
    except UnicodeDecodeError as exc:
        msg = f"{path} is no ope-bench baseline: it is not text"
        raise StoreError(msg) from exc
    header = _header(path, lines)
    body = lines[1:]
    if len(body) != header.get("trials"):
        msg = (
            f"{path} holds {len(body)} trials where its first line announces "
            f"{header.get('trials')}: it was cut or edited; restore it or save it anew"
        )
        raise StoreError(msg)
    parsed = [_parse(path, number, line) for number, line in enumerate(body, start=2)]
    if _checksum(header, body) != header.get("sha256"):
        msg = (
            f"{path} was edited after it was saved (its checksum does not match); restore it, "
            "or run `ope-bench baseline accept` for new numbers"
        )
        raise StoreError(msg)
    records: list[TrialRecord] = []
    try:
        environments = {k: _spec("environment", v) for k, v in header["environments"].items()}
        estimators = {k: _spec("estimator", v) for k, v in header["estimators"].items()}
        suite = SuiteFacts(**header["suite"])
        history = tuple(Acceptance(**one) for one in header["history"])
        # Extended one by one, so that the message knows how far it came.
        records.extend(_record(line, environments, estimators) for line in parsed)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        where = f"line {len(records) + 2}" if records else "its header or line 2"
        msg = f"{path}, {where}: {type(exc).__name__}: {exc}; it is no valid baseline"
        raise StoreError(msg) from exc
    return Baseline(suite, tuple(records), header["machine"], history)


def _header(path: Path, lines: Sequence[str]) -> dict[str, Any]:
    try:
        header = json.loads(lines[0])
    except (IndexError, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        what = "it is empty" if not lines else "its first line is not a baseline's header"
        msg = f"{path} is no ope-bench baseline: {what}"
        raise StoreError(msg)
    if header.get("schema") != SCHEMA:
        msg = (
            f"{path} has schema {header.get('schema')!r}; this version of ope-bench reads "
            f"schema {SCHEMA}: update ope-bench or save the baseline anew"
        )
        raise StoreError(msg)
    return header


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        msg = f"{path}, line {number}: not a JSON object; restore the file or save it anew"
        raise StoreError(msg)
    return parsed


def _checksum(header: Mapping[str, Any], lines: Iterable[str]) -> str:
    told = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256("\n".join([canonical_json(told), *lines]).encode()).hexdigest()


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


@dataclass(frozen=True)
class _Names:
    """Short unique names of the specs, in order of appearance."""

    environments: dict[str, PluginSpec]
    estimators: dict[str, PluginSpec]
    by_identity: dict[str, str]

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> _Names:
        by_identity: dict[str, str] = {}
        found: dict[str, dict[str, PluginSpec]] = {"environment": {}, "estimator": {}}
        specs: dict[str, dict[str, PluginSpec]] = {"environment": {}, "estimator": {}}
        for record in records:
            for spec in (record.trial.environment, record.trial.estimator):
                specs[spec.kind].setdefault(_identity(spec), spec)
        for kind, kept in specs.items():
            among = list(kept.values())
            for identity, spec in kept.items():
                name = label = setting_label(spec, among)
                number = 1
                while name in found[kind]:
                    number += 1
                    name = f"{label} #{number}"
                found[kind][name] = spec
                by_identity[identity] = name
        return cls(found["environment"], found["estimator"], by_identity)

    def name(self, spec: PluginSpec) -> str:
        return self.by_identity[_identity(spec)]

    def order(self) -> Any:
        places = {name: place for place, name in enumerate(self.environments)}
        rows = {name: place for place, name in enumerate(self.estimators)}

        def key(record: TrialRecord) -> tuple[Any, ...]:
            trial = record.trial
            return (
                places[self.name(trial.environment)],
                rows[self.name(trial.estimator)],
                trial.device,
                trial.threads,
                trial.seed,
                trial.replicate,
            )

        return key


def _identity(spec: PluginSpec) -> str:
    return spec.kind + canonical_json(spec.identity)


def _spec_json(spec: PluginSpec) -> dict[str, Any]:
    plain = {name: getattr(spec, name) for name in ("reference", "id", "label", "origin")}
    if spec.kind == "environment":
        plain |= {"worlds": spec.worlds, "version": spec.version}
    # Round trip: what has a canonical form is JSON from then on.
    plain["params"] = json.loads(canonical_json(spec.params))
    head, colon, tail = spec.reference.rpartition(":")
    if head.endswith(".py"):
        # A committed file must not hold paths of one machine.
        plain["reference"] = os.path.relpath(head) + colon + tail
        plain["origin"] = os.path.relpath(head)
    return plain


def _spec(kind: Any, plain: Mapping[str, Any]) -> PluginSpec:
    return PluginSpec(kind, **plain)


def _line(record: TrialRecord, names: _Names) -> dict[str, Any]:
    trial = record.trial
    line: dict[str, Any] = {
        "environment": names.name(trial.environment),
        "estimator": names.name(trial.estimator),
        "replicate": trial.replicate,
        "status": record.status.value,
    }
    line |= {
        name: value for name, usual in USUAL.items() if (value := getattr(trial, name)) != usual
    }
    line |= {
        name: value for name in FIGURES if (value := _figure(getattr(record, name))) is not None
    }
    if record.exclusive:
        line["exclusive"] = True
        line |= {name: value for name in TIMES if (value := getattr(record, name)) is not None}
    if record.access:
        line["access"] = list(record.access)
    return line | {"code_digest": record.code_digest}


def _figure(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _record(
    line: Mapping[str, Any],
    environments: Mapping[str, PluginSpec],
    estimators: Mapping[str, PluginSpec],
) -> TrialRecord:
    rest = dict(line)
    trial = Trial(
        environments[rest.pop("environment")],
        estimators[rest.pop("estimator")],
        rest.pop("replicate"),
        **{name: rest.pop(name, usual) for name, usual in USUAL.items()},
    )
    status = Status(rest.pop("status"))
    access = tuple(rest.pop("access", ()))
    record = TrialRecord(trial, rest.pop("code_digest"), status, access=access, **rest)
    record = replace(
        record, origin=trial.estimator.origin, environment_origin=trial.environment.origin
    )
    numbers = [getattr(record, name) for name in FIGURES if not name.startswith("error_")]
    if not all(one is None or isinstance(one, int | float) for one in numbers):
        msg = "a figure is not a number"
        raise TypeError(msg)
    return record
