"""The line format of a baseline: one trial per line, omitting values given on an earlier line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ope_bench.canonical import canonical_json
from ope_bench.plugins.labels import distinct_label
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.devices import Device
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.serialization import RECORD
from ope_bench.trials.status import Status

__all__ = ["Given", "SpecNames", "identity_of", "lines_of", "records_of"]

Given = Mapping[str, tuple[str, ...]]
"""Names of the parameters that a suite sets, by the identity of their spec."""

_COLUMNS = {
    group: tuple(column.name for column in RECORD if column.baseline == group)
    for group in ("answer", "data", "seconds", "word")
}
"""The columns of a record that a baseline holds, by group.

A line holds the numbers and words of the answer that exist. The first line on a replicate also
holds the numbers of its data. Seconds are kept for trials that ran alone; other times cannot be
compared.
"""

USUAL: dict[str, Any] = {"seed": 0, "device": Device.CPU, "threads": 1}
"""Fields of a trial that a line omits when they have these values."""


@dataclass(frozen=True)
class SpecNames:
    """Short unique names of specs, with their notes.

    Parameters
    ----------
    environments, estimators : specs by name, in order of appearance.
    access : the access that each estimator declared, by name.
    origins : origin of an environment's data, by name, where it differs from the spec's origin.
    by_identity : names by identity of the spec.
    """

    environments: dict[str, PluginSpec]
    estimators: dict[str, PluginSpec]
    access: dict[str, tuple[str, ...]]
    origins: dict[str, str]
    by_identity: dict[str, str]

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> SpecNames:
        """Name all specs that occur in the records."""
        kept = list(records)
        specs: dict[str, dict[str, PluginSpec]] = {"environment": {}, "estimator": {}}
        for record in kept:
            for spec in (record.trial.environment, record.trial.estimator):
                specs[spec.kind].setdefault(identity_of(spec), spec)
        named = {kind: _named(list(known.values())) for kind, known in specs.items()}
        by_identity = {
            identity_of(spec): name for known in named.values() for name, spec in known.items()
        }
        names = cls(named["environment"], named["estimator"], {}, {}, by_identity)
        for record in kept:
            environment, estimator = record.trial.environment, record.trial.estimator
            if record.access:
                names.access[names.name(estimator)] = record.access
            if record.environment_origin not in ("", environment.origin):
                names.origins[names.name(environment)] = record.environment_origin
        return names

    def name(self, spec: PluginSpec) -> str:
        """Return the name of a spec."""
        return self.by_identity[identity_of(spec)]

    def as_json(self) -> dict[str, Any]:
        """Return the part of the header that holds specs and names."""
        return {
            "environments": {
                name: _spec_json(spec) | _entry_if_any("note", self.origins.get(name))
                for name, spec in self.environments.items()
            },
            "estimators": {
                name: _spec_json(spec) | _entry_if_any("access", list(self.access.get(name, ())))
                for name, spec in self.estimators.items()
            },
        }

    def given_json(self, given: Given) -> dict[str, dict[str, list[str]]]:
        """Return the parameters that the suite sets, by the names of their specs."""
        return {
            group: {
                name: list(given[identity])
                for name, spec in specs.items()
                if (identity := identity_of(spec)) in given
            }
            for group, specs in self._groups()
        }

    def given_from_json(self, header: Mapping[str, Any]) -> Given:
        """Read the parameters set by the suite from a header; empty in older files."""
        noted = header.get("given", {})
        return {
            identity_of(spec): tuple(map(str, noted[group][name]))
            for group, specs in self._groups()
            for name, spec in specs.items()
            if name in noted.get(group, {})
        }

    def _groups(self) -> list[tuple[str, dict[str, PluginSpec]]]:
        return [("environments", self.environments), ("estimators", self.estimators)]

    @classmethod
    def from_json(cls, header: Mapping[str, Any]) -> SpecNames:
        """Read the names from a header."""
        names = cls({}, {}, {}, {}, {})
        for name, entry in header["environments"].items():
            rest = dict(entry)
            note = rest.pop("note", "")
            names.environments[name] = PluginSpec("environment", **rest)
            if note:
                names.origins[name] = note
        for name, entry in header["estimators"].items():
            rest = dict(entry)
            names.access[name] = tuple(rest.pop("access", ()))
            names.estimators[name] = PluginSpec("estimator", **rest)
        return names


def _entry_if_any(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}


def _named(specs: list[PluginSpec]) -> dict[str, PluginSpec]:
    named: dict[str, PluginSpec] = {}
    for spec in specs:
        name = label = distinct_label(spec, specs)
        number = 1
        while name in named:
            number += 1
            name = f"{label} #{number}"
        named[name] = spec
    return named


def identity_of(spec: PluginSpec) -> str:
    """Return a text that identifies a spec."""
    return spec.kind + canonical_json(spec.identity)


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


Shared = dict[tuple[str, int, int], dict[str, Any]]
"""Numbers of a replicate's data, by environment, seed and replicate."""


def lines_of(records: Iterable[TrialRecord], names: SpecNames) -> Iterator[dict[str, Any]]:
    """Return lines in stable order: environment, estimator, device, threads, seed, replicate."""
    environments = {name: index for index, name in enumerate(names.environments)}
    estimators = {name: index for index, name in enumerate(names.estimators)}

    def order(record: TrialRecord) -> tuple[Any, ...]:
        trial = record.trial
        environment = environments[names.name(trial.environment)]
        estimator = estimators[names.name(trial.estimator)]
        return (environment, estimator, trial.device, trial.threads, trial.seed, trial.replicate)

    shared: Shared = {}
    for record in sorted(records, key=order):
        yield _line(record, names, shared)


def _line(record: TrialRecord, names: SpecNames, shared: Shared) -> dict[str, Any]:
    trial = record.trial
    environment = names.name(trial.environment)
    line: dict[str, Any] = {
        "environment": environment,
        "estimator": names.name(trial.estimator),
        "replicate": trial.replicate,
    }
    line |= {
        name: value for name, usual in USUAL.items() if (value := getattr(trial, name)) != usual
    }
    line["status"] = record.status.value
    line |= _figures(record, "answer") | _figures(record, "word")
    known = shared.setdefault((environment, trial.seed, trial.replicate), {})
    facts = _figures(record, "data")
    line |= {name: value for name, value in facts.items() if known.get(name) != value}
    known |= facts
    if record.exclusive:
        line |= {"exclusive": True} | _figures(record, "seconds")
    if record.error_type is not None:
        # The message is omitted: it may hold paths, addresses or lines of data.
        line["error_type"] = record.error_type
    return line | {"code": record.code_digest}


def _figures(record: TrialRecord, group: str) -> dict[str, Any]:
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
        rest = dict(line)
        environment, estimator = rest.pop("environment"), rest.pop("estimator")
        usual = {name: rest.pop(name, value) for name, value in USUAL.items()}
        trial = Trial(
            names.environments[environment],
            names.estimators[estimator],
            rest.pop("replicate"),
            seed=usual["seed"],
            device=Device(usual["device"]),
            threads=usual["threads"],
        )
        known = shared.setdefault((environment, trial.seed, trial.replicate), {})
        known |= {name: rest.pop(name) for name in _COLUMNS["data"] if name in rest}
        numbers = [*known.values()]
        numbers += [rest.get(name) for group in ("answer", "seconds") for name in _COLUMNS[group]]
        if not all(one is None or isinstance(one, int | float) for one in numbers):
            msg = "a figure is not a number"
            raise TypeError(msg)
        if not all(isinstance(rest.get(name, ""), str) for name in _COLUMNS["word"]):
            msg = "a word is not text"
            raise TypeError(msg)
        origin = names.origins.get(environment, trial.environment.origin)
        yield TrialRecord(
            trial,
            rest.pop("code"),
            Status(rest.pop("status")),
            access=names.access.get(estimator, ()),
            origin=trial.estimator.origin,
            environment_origin=origin,
            **known,
            **rest,
        )
