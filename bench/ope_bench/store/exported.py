"""Read a Parquet file of `ope_bench.store.export` as a store.

Its rows go into a temporary database with the tables of a store, so that there is one reader.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ope_bench.base.canonical import canonical_json, digest
from ope_bench.base.errors import StoreError, UsageError
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import file
from ope_bench.store.export import read_parquet, row_groups
from ope_bench.store.reader import RUN_COLUMNS, Run
from ope_bench.trials.record import (
    RECORD,
    SPEC_COLUMNS,
    TRIAL_COLUMNS,
    Trial,
    spec_row,
    trial_row,
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
_INTO = ("key", "run", "finished", "environment", "estimator", "estimator_digest")
_COLUMNS = (*_INTO, *TRIAL_COLUMNS, *_RECORD)


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
            _fill(db, row_groups(frame), _runs(path, facts))
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


def _fill(db: sqlite3.Connection, rows: Iterator[Row], runs: dict[str, Run]) -> None:
    """Insert rows, and the runs and specs that they name."""
    records: dict[tuple[str, str, str], int] = {}
    specs: dict[str, int] = {}
    # Specs of `trial_of` stay, so that their ids are their own.
    known: dict[tuple[int, str], int] = {}
    into = f"INSERT INTO record ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608

    def number_of(spec: PluginSpec, run: str) -> int:
        name, values = spec_row(spec)
        if name not in specs:
            marks = ", ".join("?" * (1 + len(SPEC_COLUMNS)))
            insert = f"INSERT INTO spec (digest, {', '.join(SPEC_COLUMNS)}) VALUES ({marks})"  # noqa: S608
            specs[name] = int(db.execute(insert, (name, *values)).lastrowid or 0)
        if spec.label:
            label = (run, specs[name], spec.label)
            db.execute("INSERT OR IGNORE INTO label VALUES (?, ?, ?)", label)
        return specs[name]

    db.execute("PRAGMA defer_foreign_keys = ON")
    for row in rows:
        trial, run, _ = trial_of(row), row["run_id"], Status(row["status"])
        made_by = row.get("made_by") or run
        for name in (run, made_by):
            if name not in runs:
                # Of an older file without facts of its runs.
                last = max((one.number for one in runs.values()), default=0)
                runs[name] = Run(id=name, number=last + 1, suite=row["suite"], truth="expected")
        for spec in (trial.environment, trial.estimator):
            if (id(spec), run) not in known:
                known[id(spec), run] = number_of(spec, run)
        numbers = [known[id(spec), run] for spec in (trial.environment, trial.estimator)]
        name = row["key"], made_by, row["code_digest"]
        if name not in records:
            head = (row["key"], made_by, 0.0, *numbers, row.get("estimator_digest"))
            facts = (row.get(one, _OLDER.get(one)) for one in _RECORD)
            done = db.execute(into, (*head, *trial_row(trial), *facts))
            records[name] = int(done.lastrowid or 0)
        link = (run, row["key"], records[name])
        db.execute("INSERT OR REPLACE INTO run_record VALUES (?, ?, ?)", link)
    for one in runs.values():
        text = canonical_json(one.machine)
        machine = digest(text), text
        db.execute("INSERT OR IGNORE INTO machine (digest, facts) VALUES (?, ?)", machine)
        values = (*(getattr(one, name) for name in RUN_COLUMNS), digest(text))
        db.execute(
            f"INSERT INTO run ({', '.join(RUN_COLUMNS)}, machine) "  # noqa: S608
            f"VALUES ({', '.join('?' * len(RUN_COLUMNS))}, "
            "(SELECT id FROM machine WHERE digest = ?))",
            values,
        )


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
