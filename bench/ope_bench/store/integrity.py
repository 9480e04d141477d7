"""Damage that SQLite does not notice: a checksum of each record, digests of what it refers to."""

from __future__ import annotations

import marshal
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ope_bench.canonical import digest
from ope_bench.trials.serialization import RECORD_COLUMNS, SPEC_COLUMNS, TRIAL_COLUMNS

__all__ = ["COVERED", "Check", "check", "checksum"]

COVERED = (
    *("key", "run", "finished", "timeout", "memory"),
    *TRIAL_COLUMNS,
    *RECORD_COLUMNS,
    *("environment", "estimator"),
)
"""What a checksum covers; environment and estimator are the digests of their specs."""

MOST_SHOWN = 20

_SORTED = tuple(sorted(COVERED))
_in_order = itemgetter(*map(COVERED.index, _SORTED))

_FORMAT = 2
"""The oldest format with binary floats, the same in every version of Python; JSON takes five times
as long, which every trial would pay."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Findings of a check of a store.

    Parameters
    ----------
    records : number of records.
    unchecked : of them, those that an older version stored without a checksum.
    damage : descriptions of what is damaged, at most ``MOST_SHOWN`` of each kind.
    """

    records: int
    unchecked: int
    damage: tuple[str, ...]


def checksum(values: Sequence[Any]) -> int:
    """Return the checksum of a record's values, in the order of ``COVERED``.

    Columns without a value do not count, so that a later version may add columns.
    """
    facts = [
        # SQLite stores no negative zero.
        (name, value + 0.0 if type(value) is float else value)
        for name, value in zip(_SORTED, _in_order(values), strict=True)
        if value is not None
    ]
    return zlib.crc32(marshal.dumps(facts, _FORMAT))


def check(db: sqlite3.Connection) -> Check:
    """Compare the file's structure, every record and every spec with their checksums."""
    damage = [text for (text,) in db.execute(f"PRAGMA integrity_check({MOST_SHOWN})")]
    if damage != ["ok"]:
        # Nothing else can be relied on.
        return Check(records=0, unchecked=0, damage=tuple(damage))
    damage = []
    for table, row, parent, _ in db.execute("PRAGMA foreign_key_check").fetchmany(MOST_SHOWN):
        damage.append(f"{table} {row if row is not None else ''} refers to no {parent}")
    damage += list(_first(_damaged_specs(db)))
    damage += list(_first(_damaged_machines(db)))
    (records,) = db.execute("SELECT count(*) FROM record").fetchone()
    (unchecked,) = db.execute("SELECT count(*) FROM record WHERE checksum IS NULL").fetchone()
    damage += list(_first(_damaged_records(db)))
    return Check(records=records, unchecked=unchecked, damage=tuple(damage))


def _first(texts: Iterator[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number == MOST_SHOWN:
            yield "and more"
            return
        yield text


def _damaged_specs(db: sqlite3.Connection) -> Iterator[str]:
    columns = ", ".join(SPEC_COLUMNS)
    for name, *row in db.execute(f"SELECT digest, {columns} FROM spec ORDER BY id"):  # noqa: S608
        if digest(row) != name:
            yield f"the spec of {row[2]!r} differs from its digest"


def _damaged_machines(db: sqlite3.Connection) -> Iterator[str]:
    for number, name, facts in db.execute("SELECT id, digest, facts FROM machine ORDER BY id"):
        if digest(facts) != name:
            yield f"machine {number} differs from its digest"


def _damaged_records(db: sqlite3.Connection) -> Iterator[str]:
    names = {"environment": "world.digest", "estimator": "method.digest"}
    columns = ", ".join(names.get(name, f"record.{name}") for name in COVERED)
    query = (
        f"SELECT record.id, record.checksum, {columns} FROM record "  # noqa: S608
        "LEFT JOIN spec AS world ON world.id = record.environment "
        "LEFT JOIN spec AS method ON method.id = record.estimator "
        "WHERE checksum IS NOT NULL ORDER BY record.id"
    )
    for number, expected, *values in db.execute(query):
        if checksum(values) != expected:
            yield f"record {number} (trial {str(values[0])[:12]}) differs from its checksum"
