"""Read a Parquet file of `ope_bench.store.export` as a store.

Its rows go into a temporary database with the tables of a store, so that there is one reader.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ope_bench.base.canonical import canonical_json, digest
from ope_bench.base.errors import StoreError, UsageError
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import file
from ope_bench.store.export import COLUMNS, ROW_GROUP, read_parquet
from ope_bench.store.reader import RUN_COLUMNS, Run
from ope_bench.trials.record import (
    RECORD,
    SPEC_COLUMNS,
    TRIAL_COLUMNS,
    Trial,
    spec_row,
)
from ope_bench.trials.status import Device, Status

Row = Mapping[str, Any]

NEEDED = (
    *("key", "code_digest", "run_id", "suite", "environment", "environment_params"),
    *("estimator", "params", "replicate", "seed", "device", "status", "estimate"),
)
"""Columns without which a file is no export."""

_OLDER: Mapping[str, Any] = {
    "exclusive": False,
    "diagnostics": "{}",
    "access": "[]",
    "origin": "",
    "environment_origin": "",
    "shared_seconds": 0.0,
}
"""What stands for columns of a record that exports of older versions lack."""

_RECORD = tuple(column.name for column in RECORD)
_VALUES = ("estimator_digest", *TRIAL_COLUMNS, *_RECORD)
_COLUMNS = ("id", "key", "run", "finished", "environment", "estimator", *_VALUES)
_FACTS = (
    *("environment_version", "environment", "environment_params", "environment_reference"),
    *("environment_origin", "environment_label"),
    *("estimator", "params", "reference", "origin", "label"),
)
"""Columns that say which environment and which estimator a row is of."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a temporary database with the trials of an export.

    Raises
    ------
    StoreError : the file is missing, or is no export.
    """
    if not path.is_file():
        msg = f"there is no export {path}; `ope-bench export --to {path.name}` makes one"
        raise StoreError(msg)
    db = sqlite3.connect("", isolation_level=None)
    try:
        file.migrate(db)
        frame, told = read_parquet(path)
        with file.transaction(db):
            lacks = [name for name in NEEDED if name not in frame.columns]
            if lacks:
                raise ValueError(f"it lacks the column {lacks[0]}")  # noqa: EM102
            facts = None if told is None else json.loads(told)
            _fill(db, frame, _runs(path, facts))
        db.execute("PRAGMA query_only = ON")
    except (
        *(OSError, UsageError, sqlite3.Error, LookupError, TypeError, ValueError),
        *(AttributeError, RecursionError),
    ) as exc:
        db.close()
        msg = f"{path} is not an export of trials: {' '.join(str(exc).split())[:200]}"
        raise StoreError(msg) from exc
    except BaseException:
        db.close()
        raise
    return db


def _runs(path: Path, told: Sequence[Row] | None) -> dict[str, Run]:
    """Return the runs that the file, or that beside an older one, holds, by id."""
    from pydantic import TypeAdapter, ValidationError

    if told is None:
        beside = path.with_name("run.json" if path.stem == "trials" else f"{path.stem}.json")
        facts = (
            json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {"runs": []}
        )
        told = [{**run, "number": place} for place, run in enumerate(facts["runs"], 1)]
    try:
        runs = TypeAdapter(list[Run]).validate_json(json.dumps(told), strict=True)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(map(str, ("runs", *first["loc"])))
        msg = f"{place}: {first['msg'].replace('Input should be', 'expected')}"
        raise ValueError(msg) from exc
    return {run.id: run for run in runs}


def _fill(db: sqlite3.Connection, frame: Any, runs: dict[str, Run]) -> None:
    """Insert the rows of a Polars frame, and the runs and specs that they name."""
    records: dict[tuple[str, str, str], int] = {}
    specs: dict[str, int] = {}
    pairs: dict[tuple[Any, ...], tuple[tuple[int, str], ...]] = {}
    labels: dict[tuple[str, int], str] = {}
    links: dict[tuple[str, str], int] = {}

    def number_of(spec: PluginSpec) -> int:
        name, values = spec_row(spec)
        if name not in specs:
            specs[name] = len(specs) + 1
            _insert(db, "spec", ("id", "digest", *SPEC_COLUMNS), [(specs[name], name, *values)])
        return specs[name]

    for part in frame.iter_slices(ROW_GROUP):
        names = (*COLUMNS, *_RECORD)
        columns: dict[str, Any] = {name: [_OLDER.get(name)] * part.height for name in names}
        columns |= part.to_dict(as_series=False)
        columns["status"] = [Status(status).value for status in columns["status"]]
        columns["device"] = [Device(device).value for device in columns["device"]]
        columns["threads"] = [threads or 1 for threads in columns["threads"]]
        columns["salt"] = [salt or None for salt in columns["salt"]]
        rows = []
        parts = _FACTS, ("key", "run_id", "made_by", "code_digest", "suite"), _VALUES
        whole = (zip(*(columns[name] for name in one), strict=True) for one in parts)
        for place, (facts, head, values) in enumerate(zip(*whole, strict=True)):
            key, run_id, maker, code, suite = head
            # Where a row names no version of its environment, its key does.
            known = (*facts, None if facts[0] is not None else key)
            if known not in pairs:
                trial = trial_of({name: column[place] for name, column in columns.items()})
                both = trial.environment, trial.estimator
                pairs[known] = tuple((number_of(spec), spec.label) for spec in both)
            for name in (run_id, maker or run_id):
                if name not in runs:
                    # Of an older file without facts of its runs.
                    last = max((one.number for one in runs.values()), default=0)
                    runs[name] = Run(id=name, number=last + 1, suite=suite, truth="expected")
            for number, label in pairs[known]:
                if label:
                    labels.setdefault((run_id, number), label)
            record = key, maker or run_id, code
            if record not in records:
                records[record] = len(records) + 1
                numbers = (number for number, _ in pairs[known])
                rows.append((records[record], *record[:2], 0.0, *numbers, *values))
            links[run_id, key] = records[record]
        _insert(db, "record", _COLUMNS, rows)
    _insert(db, "run_record", ("run", "key", "record"), [(*one, links[one]) for one in links])
    _insert(db, "label", ("run", "spec", "label"), [(*one, labels[one]) for one in labels])
    machines: dict[str, int] = {}
    for run in runs.values():
        text = canonical_json(run.machine)
        number = machines.setdefault(text, len(machines) + 1)
        _insert(db, "machine", ("id", "digest", "facts"), [(number, digest(text), text)])
        facts_of_run = (*(getattr(run, name) for name in RUN_COLUMNS), number)
        _insert(db, "run", (*RUN_COLUMNS, "machine"), [facts_of_run])


def _insert(
    db: sqlite3.Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    marks = ", ".join("?" * len(columns))
    # Tables and columns are our own. IGNORE would leave out rows that lack a value.
    into = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
    db.executemany(into, rows)


# The trial of a row.


@cache
def _specs(
    kind: Literal["environment", "estimator"], name: str, text: str, facts: tuple[Any, ...]
) -> list[PluginSpec]:
    """Return a setting's specs: of one without a version one for each, newest first."""
    reference, origin, label, version = facts
    params = json.loads(text)
    if not isinstance(params, dict):
        msg = f"the parameters of {name} are no mapping: {text}"
        raise TypeError(msg)
    worlds: Any = params.pop("worlds") if kind == "environment" else "redrawn"
    spec = PluginSpec(
        kind, reference or name, name, params, worlds=worlds, origin=origin, label=label
    )
    if kind == "estimator":
        return [spec]
    if version is not None:
        return [replace(spec, version=version)]
    return [replace(spec, version=one) for one in range(newest_version(name), 0, -1)]


def newest_version(environment: str) -> int:
    """Return the version of an installed environment."""
    return getattr(registry().find("environment", environment).cls, "version", 1)


def trial_of(row: Row) -> Trial:
    """Return the trial of an exported row.

    Older exports lack the version of the environment: it is the one that the key names.
    """
    reference, label = row.get("reference"), row.get("label") or ""
    facts = reference, row.get("origin") or "", label, None
    (estimator,) = _specs("estimator", row["estimator"], row["params"], facts)
    reference, label = row.get("environment_reference"), row.get("environment_label") or ""
    # A note on the data may follow, in parentheses.
    origin = (row.get("environment_origin") or "").partition(" (")[0]
    facts = reference, origin, label, row.get("environment_version")
    settings = _specs("environment", row["environment"], row["environment_params"], facts)
    trials = [
        Trial(
            setting,
            estimator,
            row["replicate"],
            seed=row["seed"],
            device=Device(row["device"]),
            threads=row.get("threads") or 1,
            salt=row.get("salt") or "",
        )
        for setting in settings
    ]
    if len(trials) == 1:
        return trials[0]
    return next((one for one in trials if one.key == row["key"]), trials[0])
