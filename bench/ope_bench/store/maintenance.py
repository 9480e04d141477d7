"""Maintenance of a store: counts, pruning, merging."""

from __future__ import annotations

import heapq
import sqlite3
from dataclasses import fields
from itertools import accumulate
from pathlib import Path

from ope_bench.store.results import RUN_COLUMNS, Conflict, StoreInfo
from ope_bench.trials.record import ANSWER_FIELDS
from ope_bench.trials.serialization import SPEC_COLUMNS
from ope_bench.trials.status import Status

__all__ = ["conflicts", "info", "merge", "prune", "count_code_mismatches"]

_ANSWERS = ", ".join(f"'{status}'" for status in Status if status.is_answer)
_COMPARED = (*ANSWER_FIELDS, "truth_expected", "truth_empirical")


def info(db: sqlite3.Connection, path: Path) -> StoreInfo:
    """Count the contents of a store."""
    count = {
        name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
        for name in ("run", "record", "machine")
    }
    status = db.execute("SELECT status, count(*) FROM record GROUP BY status ORDER BY status")
    suites = db.execute("SELECT suite, count(*) FROM run GROUP BY suite ORDER BY suite")
    (keys,) = db.execute("SELECT count(DISTINCT key) FROM record").fetchone()
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    return StoreInfo(
        path=str(path),
        bytes=path.stat().st_size,
        schema=schema,
        runs=count["run"],
        machines=count["machine"],
        records=count["record"],
        trials=keys,
        status=dict(status.fetchall()),
        suites=dict(suites.fetchall()),
    )


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
    known = {
        name: {row[1] for row in db.execute(f"PRAGMA {store}.table_info(record)")}
        for name, store in (("mine", "main"), ("theirs", "other"))
    }

    def column(side: str, name: str) -> str:
        return f"{side}.{name}" if name in known[side] else "NULL"

    differ = " OR ".join(
        f"{column('mine', name)} IS NOT {column('theirs', name)}" for name in _COMPARED
    )
    query = f"""
        SELECT mine.key, method.plugin, world.plugin, mine.replicate,
            mine.run, mine.status, mine.estimate, theirs.run, theirs.status, theirs.estimate
        FROM ({newest("main")}) AS mine
        JOIN ({newest("other")}) AS theirs
            ON theirs.key = mine.key AND theirs.code_digest = mine.code_digest
        JOIN main.spec AS world ON world.id = mine.environment
        JOIN main.spec AS method ON method.id = mine.estimator
        WHERE {differ}
        ORDER BY mine.key
    """  # noqa: S608  column names of our own
    names = [one.name for one in fields(Conflict)]
    return [Conflict(**dict(zip(names, row, strict=True))) for row in db.execute(query)]


def count_code_mismatches(db: sqlite3.Connection) -> int:
    """Count the trials in both stores whose code digests differ."""
    (count,) = db.execute(
        "SELECT count(DISTINCT key) FROM main.record AS mine WHERE EXISTS "
        "(SELECT 1 FROM other.record AS theirs WHERE theirs.key = mine.key) AND NOT EXISTS "
        "(SELECT 1 FROM other.record AS theirs WHERE theirs.key = mine.key "
        "AND theirs.code_digest = mine.code_digest)"
    ).fetchone()
    return int(count)


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
    runs = ", ".join(name for name in RUN_COLUMNS if name != "number")
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
