"""A baseline's lines: one trial each, what others tell already left out."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ope_bench.leaderboard import setting_label
from ope_bench.records import PluginSpec, Status, Trial, TrialRecord
from ope_bench.seeding import canonical_json

__all__ = ["Names", "lines_of", "records_of"]

ANSWER = ("estimate", "standard_error", "fallback", "ess_fraction", "max_weight_share")
"""Numbers of a record that are the estimator's; a line holds those that exist."""

DATA = (
    "truth_expected",
    "truth_expected_se",
    "truth_empirical",
    "logging_average",
    "unsupported_mass",
    "observed_unsupported_mass",
    "n_logged_actions",
    "n_target_actions",
)
"""Numbers of a record that are the data's: the first line on a replicate holds them for all."""

USUAL: dict[str, Any] = {"seed": 0, "device": "cpu", "threads": 1}
"""Fields of a trial that a line leaves out where they are as usual."""

TIMES = ("fit_seconds", "estimate_seconds")
"""Held only for trials that ran alone; other times compare nothing."""


@dataclass(frozen=True)
class Names:
    """Short unique names of the specs, and the notes that go with them.

    Parameters
    ----------
    environments, estimators : specs by name, in order of appearance.
    access : what each estimator declared, by name.
    origins : origin with its note, by environment's name, where it says more than the spec's.
    by_identity : name by identity.
    """

    environments: dict[str, PluginSpec]
    estimators: dict[str, PluginSpec]
    access: dict[str, tuple[str, ...]]
    origins: dict[str, str]
    by_identity: dict[str, str]

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> Names:
        """The names of all specs that occur."""
        kept = list(records)
        specs: dict[str, dict[str, PluginSpec]] = {"environment": {}, "estimator": {}}
        for record in kept:
            for spec in (record.trial.environment, record.trial.estimator):
                specs[spec.kind].setdefault(_identity(spec), spec)
        found = {kind: _named(list(known.values())) for kind, known in specs.items()}
        by_identity = {
            _identity(spec): name for known in found.values() for name, spec in known.items()
        }
        names = cls(found["environment"], found["estimator"], {}, {}, by_identity)
        for record in kept:
            environment, estimator = record.trial.environment, record.trial.estimator
            if record.access:
                names.access[names.name(estimator)] = record.access
            if record.environment_origin not in ("", environment.origin):
                names.origins[names.name(environment)] = record.environment_origin
        return names

    def name(self, spec: PluginSpec) -> str:
        """The name of a spec."""
        return self.by_identity[_identity(spec)]

    def as_json(self) -> dict[str, Any]:
        """The header's part."""
        return {
            "environments": {
                name: _spec_json(spec) | _given("note", self.origins.get(name))
                for name, spec in self.environments.items()
            },
            "estimators": {
                name: _spec_json(spec) | _given("access", list(self.access.get(name, ())))
                for name, spec in self.estimators.items()
            },
        }

    @classmethod
    def from_json(cls, header: Mapping[str, Any]) -> Names:
        """The names that a header holds."""
        names = cls({}, {}, {}, {}, {})
        for name, told in header["environments"].items():
            rest = dict(told)
            note = rest.pop("note", "")
            names.environments[name] = PluginSpec("environment", **rest)
            if note:
                names.origins[name] = note
        for name, told in header["estimators"].items():
            rest = dict(told)
            names.access[name] = tuple(rest.pop("access", ()))
            names.estimators[name] = PluginSpec("estimator", **rest)
        return names


def _given(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}


def _named(specs: list[PluginSpec]) -> dict[str, PluginSpec]:
    found: dict[str, PluginSpec] = {}
    for spec in specs:
        name = label = setting_label(spec, specs)
        number = 1
        while name in found:
            number += 1
            name = f"{label} #{number}"
        found[name] = spec
    return found


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


Shared = dict[tuple[str, int, int], dict[str, Any]]
"""What is known of a replicate's data, by environment, seed and replicate."""


def lines_of(records: Iterable[TrialRecord], names: Names) -> Iterator[dict[str, Any]]:
    """The lines in their stable order: environment, estimator, device, seed, replicate."""
    worlds = {name: place for place, name in enumerate(names.environments)}
    methods = {name: place for place, name in enumerate(names.estimators)}

    def place(record: TrialRecord) -> tuple[Any, ...]:
        trial = record.trial
        world, method = names.name(trial.environment), names.name(trial.estimator)
        asked = (trial.device, trial.threads, trial.seed, trial.replicate)
        return (worlds[world], methods[method], *asked)

    shared: Shared = {}
    for record in sorted(records, key=place):
        yield _line(record, names, shared)


def _line(record: TrialRecord, names: Names, shared: Shared) -> dict[str, Any]:
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
    line |= _figures(record, ANSWER)
    known = shared.setdefault((environment, trial.seed, trial.replicate), {})
    facts = _figures(record, DATA)
    line |= {name: value for name, value in facts.items() if known.get(name) != value}
    known |= facts
    if record.exclusive:
        line |= {"exclusive": True} | _figures(record, TIMES)
    if record.error_type is not None:
        # Not its message, which may hold anything: paths, addresses, lines of data.
        line["error_type"] = record.error_type
    return line | {"code": record.code_digest}


def _figures(record: TrialRecord, names: Iterable[str]) -> dict[str, float]:
    found = ((name, getattr(record, name)) for name in names)
    return {
        name: value
        for name, value in found
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


def records_of(lines: Iterable[Mapping[str, Any]], names: Names) -> Iterator[TrialRecord]:
    """The records of the lines, in their order.

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
            **usual,
        )
        known = shared.setdefault((environment, trial.seed, trial.replicate), {})
        known |= {name: rest.pop(name) for name in DATA if name in rest}
        numbers = [rest.get(name) for name in (*ANSWER, *TIMES)] + list(known.values())
        if not all(one is None or isinstance(one, int | float) for one in numbers):
            msg = "a figure is not a number"
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
