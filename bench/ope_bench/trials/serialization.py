"""Convert records and specs to rows of plain values, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ope_bench.canonical import canonical_json, digest
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.columns import Plain, columns_of
from ope_bench.trials.devices import Device
from ope_bench.trials.record import Trial, TrialRecord

__all__ = [
    "RECORD",
    "RECORD_COLUMNS",
    "SPEC_COLUMNS",
    "TRIAL_COLUMNS",
    "facts_from",
    "plain_facts",
    "from_row",
    "part_from_row",
    "to_row",
    "spec_from",
    "spec_row",
    "trial_from",
    "trial_row",
]

RECORD = columns_of(TrialRecord)
"""The columns of a record without its trial."""

RECORD_COLUMNS = tuple(column.name for column in RECORD)
"""Names of these columns, also those of the store."""

_PLAIN = {column.name: column.to_plain for column in RECORD}
_RESTORED = {column.name: column.from_plain for column in RECORD if column.from_plain}

TRIAL_COLUMNS = ("replicate", "seed", "device", "threads")
"""Columns of a trial without its specs."""

SPEC_COLUMNS = ("kind", "reference", "plugin", "params", "worlds", "version", "origin")


def to_row(record: TrialRecord) -> tuple[Plain, ...]:
    """Convert a record's own fields, in the order of ``RECORD_COLUMNS``."""
    facts = record.__dict__
    return tuple(
        None if facts[name] is None else plain(facts[name]) for name, plain in _PLAIN.items()
    )


def plain_facts(facts: Mapping[str, Any]) -> dict[str, Plain]:
    """Convert fields of a record to plain values."""
    return {name: None if value is None else _PLAIN[name](value) for name, value in facts.items()}


def facts_from(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Convert plain values to fields of a record."""
    facts = dict(plain)
    for name, restored in _RESTORED.items():
        if facts.get(name) is not None:
            facts[name] = restored(facts[name])
    return facts


def from_row(trial: Trial, row: tuple[Any, ...]) -> TrialRecord:
    """Build the record of a trial from a row of ``RECORD_COLUMNS``."""
    record = object.__new__(TrialRecord)
    # A frozen dataclass's __init__ calls object.__setattr__ for each of its thirty fields, too
    # slow for a hundred thousand rows.
    facts = record.__dict__
    facts["trial"] = trial
    facts.update(zip(RECORD_COLUMNS, row, strict=True))
    for name, restored in _RESTORED.items():
        if facts[name] is not None:
            facts[name] = restored(facts[name])
    return record


def part_from_row(trial: Trial, columns: Sequence[str], row: Sequence[Plain]) -> TrialRecord:
    """Build a record of some columns, at a third of the memory; others have their defaults.

    Only for readers that know which columns they need: where a column has no default, there is
    no such attribute.
    """
    record = object.__new__(TrialRecord)
    facts = record.__dict__
    facts["trial"] = trial
    for name, value in zip(columns, row, strict=True):
        # None is the default, which the class holds.
        if value is not None:
            facts[name] = _RESTORED[name](value) if name in _RESTORED else value
    return record


def trial_row(trial: Trial) -> tuple[Plain, ...]:
    """Convert a trial's own fields, in the order of ``TRIAL_COLUMNS``."""
    return trial.replicate, trial.seed, trial.device.value, trial.threads


def trial_from(environment: PluginSpec, estimator: PluginSpec, row: Sequence[Any]) -> Trial:
    """Build a trial from a row of ``TRIAL_COLUMNS``."""
    replicate, seed, device, threads = row
    return Trial(
        environment, estimator, replicate, seed=seed, device=Device(device), threads=threads
    )


def spec_row(spec: PluginSpec) -> tuple[str, tuple[Plain, ...]]:
    """Convert a spec to its digest and a row of ``SPEC_COLUMNS``; labels belong to runs."""
    # Cached on the spec, because thousands of trials share a few specs.
    known: tuple[str, tuple[Plain, ...]] | None = spec.__dict__.get("_row")
    if known is None:
        row = (
            spec.kind,
            spec.reference,
            spec.id,
            canonical_json(spec.params),
            spec.worlds,
            spec.version,
            spec.origin,
        )
        known = digest(row), row
        object.__setattr__(spec, "_row", known)
    return known


def spec_from(row: Mapping[str, Any], label: str = "") -> PluginSpec:
    """Build a spec from a row."""
    spec = PluginSpec(
        row["kind"],
        row["reference"],
        row["plugin"],
        json.loads(row["params"]),
        worlds=row["worlds"],
        version=row["version"],
        origin=row["origin"],
    )
    return replace(spec, label=label) if label else spec
