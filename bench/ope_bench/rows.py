"""Records and specs as rows of plain values, and back."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ope_bench.records import PluginSpec, Status, Trial, TrialRecord
from ope_bench.seeding import canonical_json, digest

__all__ = [
    "RECORD_COLUMNS",
    "SPEC_COLUMNS",
    "Plain",
    "facts_from",
    "plain_facts",
    "record_from",
    "record_row",
    "spec_from",
    "spec_row",
]

Plain = float | int | str | None


def _text(value: Any) -> str:
    # A lone surrogate, as in an undecodable file name, has no place in SQLite's text.
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def _number(value: Any) -> float | None:
    number = float(value)
    return None if math.isnan(number) else number


_FIELDS: dict[str, Callable[[Any], Plain]] = {
    "code_digest": _text,
    "status": _text,
    "estimate": _number,
    "standard_error": _number,
    "fallback": _number,
    "truth_expected": _number,
    "truth_expected_se": _number,
    "truth_empirical": _number,
    "logging_average": _number,
    "unsupported_mass": _number,
    "observed_unsupported_mass": _number,
    "n_logged_actions": int,
    "n_target_actions": int,
    "ess_fraction": _number,
    "max_weight_share": _number,
    "fit_seconds": _number,
    "fit_cpu_seconds": _number,
    "estimate_seconds": _number,
    "shared_seconds": _number,
    "peak_rss_bytes": int,
    "gpu_peak_bytes": int,
    "exclusive": int,
    "origin": _text,
    "environment_origin": _text,
    "error_type": _text,
    "error_message": _text,
    "traceback": _text,
    "output_tail": _text,
    "diagnostics": lambda value: json.dumps(dict(value), default=_item),
    "access": lambda value: json.dumps(list(value)),
}

RECORD_COLUMNS = tuple(_FIELDS)
"""Columns of a record that are fields of TrialRecord."""

SPEC_COLUMNS = ("kind", "reference", "plugin", "params", "worlds", "version", "origin")


def _item(value: Any) -> Plain:
    """A numpy scalar as a plain number."""
    plain: Plain = value.item()
    return plain


def record_row(record: TrialRecord) -> tuple[Plain, ...]:
    """The record's own fields in the order of ``RECORD_COLUMNS``."""
    facts = record.__dict__
    return tuple(
        None if facts[name] is None else plain(facts[name]) for name, plain in _FIELDS.items()
    )


def plain_facts(facts: Mapping[str, Any]) -> dict[str, Plain]:
    """Some fields of a record as plain values."""
    return {name: None if value is None else _FIELDS[name](value) for name, value in facts.items()}


def facts_from(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record from plain values."""
    facts = dict(plain)
    for name, restored in _RESTORED.items():
        if name in facts:
            facts[name] = restored(facts[name])
    return facts


def record_from(trial: Trial, row: tuple[Any, ...]) -> TrialRecord:
    """The record of a trial from a row of ``RECORD_COLUMNS``."""
    record = object.__new__(TrialRecord)
    # A frozen class sets its thirty fields one by one, which a hundred thousand rows would feel.
    facts = record.__dict__
    facts["trial"] = trial
    facts.update(zip(RECORD_COLUMNS, row, strict=True))
    for name, restored in _RESTORED.items():
        facts[name] = restored(facts[name])
    return record


def _diagnostics(text: str) -> dict[str, Any]:
    if text == "{}":
        return {}
    return {sys.intern(name): value for name, value in json.loads(text).items()}


@cache
def _access(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


# Texts that thousands of records have in common are kept once.
_RESTORED: dict[str, Callable[[Any], Any]] = {
    "code_digest": sys.intern,
    "origin": sys.intern,
    "environment_origin": sys.intern,
    "status": Status,
    "exclusive": bool,
    "diagnostics": _diagnostics,
    "access": _access,
}


def spec_row(spec: PluginSpec) -> tuple[str, tuple[Plain, ...]]:
    """A digest and the row in the order of ``SPEC_COLUMNS``; the label is a run's."""
    # Kept on the spec itself: thousands of trials share a few specs.
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
    """The spec of a row."""
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
