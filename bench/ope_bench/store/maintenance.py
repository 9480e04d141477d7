"""Maintenance of a store: damage, pruning, merging."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator
from dataclasses import fields
from itertools import accumulate

from ope_bench.base.canonical import digest
from ope_bench.store.file import COVERED, checksum
from ope_bench.store.reader import RUN_COLUMNS, Conflict, StoreCheck
from ope_bench.trials.record import ANSWER_FIELDS, SPEC_COLUMNS
from ope_bench.trials.status import Status

_ANSWERS = ", ".join(f"'{status}'" for status in Status if status.is_answer)
_COMPARED = (*ANSWER_FIELDS, "truth_expected", "truth_empirical")


def prune(db: sqlite3.Connection) -> int:
    """Keep the newest record of each suite, truth and key; return the number of deleted ones."""
    db.execute(
        """
        DELETE FROM run_record WHERE (run, key) NOT IN (
            SELECT run, key FROM (
                SELECT run.id AS run, run_record.key AS key, max(run.number)
                FROM run_record JOIN run ON run.id = run_record.run
                GROUP BY run.suite, run.truth, run_record.key
            )
        )
        """
    )
    gone = db.execute("DELETE FROM record WHERE id NOT IN (SELECT record FROM run_record)")
    used = "SELECT run FROM run_record UNION SELECT run FROM record"
    db.execute(f"DELETE FROM label WHERE run NOT IN ({used})")  # noqa: S608
    db.execute(f"DELETE FROM run WHERE id NOT IN ({used})")  # noqa: S608
    db.execute(
        "DELETE FROM spec WHERE id NOT IN "
        "(SELECT environment FROM record UNION SELECT estimator FROM record "
        "UNION SELECT spec FROM label)"
    )
    db.execute("DELETE FROM machine WHERE id NOT IN (SELECT machine FROM run)")
    return gone.rowcount


def conflicts(db: sqlite3.Connection) -> list[Conflict]:
    """Return trials with other answers of the same code in the attached store ``other``.

    Of each key and code the newest record counts; what ended at a limit of its machine is no
    answer.
    """

    def newest(store: str) -> str:
        return (
            f"SELECT *, max(id) FROM {store}.record "  # noqa: S608
            f"WHERE status IN ({_ANSWERS}) GROUP BY key, code_digest"
        )

    # A store of an older schema lacks columns; its answers have nothing there.
    known = {"mine": _columns(db, "main"), "theirs": _columns(db, "other")}

    def column(side: str, name: str) -> str:
        return f"{side}.{name}" if name in known[side] else "NULL"

    differ = " OR ".join(
        f"{column('mine', name)} IS NOT {column('theirs', name)}" for name in _COMPARED
    )
    query = f"""
        SELECT mine.key, estimator.plugin, environment.plugin, mine.replicate,
            mine.run, mine.status, mine.estimate, theirs.run, theirs.status, theirs.estimate
        FROM ({newest("main")}) AS mine
        JOIN ({newest("other")}) AS theirs
            ON theirs.key = mine.key AND theirs.code_digest = mine.code_digest
        JOIN main.spec AS environment ON environment.id = mine.environment
        JOIN main.spec AS estimator ON estimator.id = mine.estimator
        WHERE {differ}
        ORDER BY mine.key
    """  # noqa: S608  column names of our own
    names = [one.name for one in fields(Conflict)]
    return [Conflict(**dict(zip(names, row, strict=True))) for row in db.execute(query)]


_OWN = ("id", "environment", "estimator")
"""Columns of records that hold numbers of their own store."""


def _columns(db: sqlite3.Connection, store: str, table: str = "record") -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA {store}.table_info({table})")]


def _merged_order(db: sqlite3.Connection) -> list[str]:
    """Return the ids of both stores' runs, oldest first.

    Each store's own order stays, for a clock may have been set back between two runs; the clocks
    say only how the two orders are put together.
    """
    here = _ordered_runs(db, "main")
    known = {run for run, _ in here}
    there = [run for run in _ordered_runs(db, "other") if run[0] not in known]
    return [run for run, _ in heapq.merge(here, there, key=lambda run: run[1])]


def _ordered_runs(db: sqlite3.Connection, store: str) -> list[tuple[str, float]]:
    """Return the ids of a store's runs in its own order, each with the latest start up to it."""
    order = "number" if "number" in _columns(db, store, "run") else "started, id"
    rows = db.execute(f"SELECT id, started FROM {store}.run ORDER BY {order}").fetchall()  # noqa: S608
    latest = accumulate((started for _, started in rows), max)
    return [(run, time) for (run, _), time in zip(rows, latest, strict=True)]


def merge(db: sqlite3.Connection) -> int:
    """Copy new contents of the attached store ``other``; return the number of new records."""
    specs = ", ".join(("digest", *SPEC_COLUMNS))
    there = _columns(db, "other", "run")
    runs = ", ".join(name for name in RUN_COLUMNS if name != "number" and name in there)
    order = _merged_order(db)
    columns = _columns(db, "main")
    # A store of an older schema lacks some.
    theirs = _columns(db, "other")
    own = [name for name in columns if name in theirs and name not in _OWN]
    listed = ", ".join(own)
    db.execute(
        "INSERT OR IGNORE INTO main.machine (digest, facts) "
        "SELECT digest, facts FROM other.machine"
    )
    db.execute(
        f"INSERT OR IGNORE INTO main.spec ({specs}) SELECT {specs} FROM other.spec"  # noqa: S608
    )
    db.execute(
        f"INSERT OR IGNORE INTO main.run ({runs}, machine) "  # noqa: S608
        f"SELECT {', '.join(f'run.{name}' for name in runs.split(', '))}, here.id "
        "FROM other.run AS run JOIN other.machine AS there ON there.id = run.machine "
        "JOIN main.machine AS here ON here.digest = there.digest"
    )
    db.executemany("UPDATE main.run SET number = ? WHERE id = ?", enumerate(order, start=1))
    db.execute(
        """
        INSERT OR IGNORE INTO main.label
        SELECT label.run, here.id, label.label
        FROM other.label AS label JOIN other.spec AS there ON there.id = label.spec
        JOIN main.spec AS here ON here.digest = there.digest
        """
    )
    same = "mine.key = theirs.key AND mine.finished = theirs.finished AND mine.run = theirs.run"
    new = db.execute(
        f"INSERT INTO main.record ({listed}, environment, estimator) "  # noqa: S608
        f"SELECT {', '.join(f'theirs.{name}' for name in own)}, w.id, m.id "
        "FROM other.record AS theirs "
        "JOIN other.spec AS ow ON ow.id = theirs.environment "
        "JOIN main.spec AS w ON w.digest = ow.digest "
        "JOIN other.spec AS om ON om.id = theirs.estimator "
        "JOIN main.spec AS m ON m.digest = om.digest "
        f"WHERE NOT EXISTS (SELECT 1 FROM main.record AS mine WHERE {same})"
    )
    db.execute(
        f"INSERT OR IGNORE INTO main.run_record "  # noqa: S608
        "SELECT link.run, link.key, mine.id FROM other.run_record AS link "
        "JOIN other.record AS theirs ON theirs.id = link.record "
        f"JOIN main.record AS mine ON {same}"
    )
    return new.rowcount


# Damage that SQLite does not notice: a checksum of each record, digests of what it refers to.

MOST_SHOWN = 20


def check(db: sqlite3.Connection) -> StoreCheck:
    """Compare the file's structure, every record and every spec with their checksums."""
    damage = [text for (text,) in db.execute(f"PRAGMA integrity_check({MOST_SHOWN})")]
    if damage != ["ok"]:
        # Nothing else can be relied on.
        return StoreCheck(records=0, unchecked=0, damage=tuple(damage))
    damage = []
    for table, row, parent, _ in db.execute("PRAGMA foreign_key_check").fetchmany(MOST_SHOWN):
        damage.append(f"{table} {row if row is not None else ''} refers to no {parent}")
    columns = ", ".join(SPEC_COLUMNS)
    specs = db.execute(f"SELECT digest, {columns} FROM spec ORDER BY id")  # noqa: S608
    machines = db.execute("SELECT id, digest, facts FROM machine ORDER BY id")
    damage += _first(
        f"the spec of {row[2]!r} differs from its digest"
        for name, *row in specs
        if digest(row) != name
    )
    damage += _first(
        f"machine {number} differs from its digest"
        for number, name, facts in machines
        if digest(facts) != name
    )
    damage += _first(_damaged_records(db))
    records, checked = db.execute("SELECT count(*), count(checksum) FROM record").fetchone()
    return StoreCheck(records=records, unchecked=records - checked, damage=tuple(damage))


def _first(texts: Iterator[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number == MOST_SHOWN:
            yield "and more"
            return
        yield text


def _damaged_records(db: sqlite3.Connection) -> Iterator[str]:
    names = {"environment": "environment.digest", "estimator": "estimator.digest"}
    columns = ", ".join(names.get(name, f"record.{name}") for name in COVERED)
    query = (
        f"SELECT record.id, record.checksum, {columns} FROM record "  # noqa: S608
        "LEFT JOIN spec AS environment ON environment.id = record.environment "
        "LEFT JOIN spec AS estimator ON estimator.id = record.estimator "
        "WHERE checksum IS NOT NULL ORDER BY record.id"
    )
    for number, expected, *values in db.execute(query):
        if checksum(values) != expected:
            yield f"record {number} (trial {str(values[0])[:12]}) differs from its checksum"
