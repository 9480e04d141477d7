"""What keeps a store in order: counts, pruning, merging."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

__all__ = ["conflicts", "info", "merge", "prune", "told_by_other_code"]

_ANSWERS = "('ok', 'positivity', 'nonfinite', 'error')"
_ANSWER = ("status", "estimate", "standard_error", "fallback", "truth_expected", "truth_empirical")


def info(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Counts and sizes, as plain values."""
    count = {
        name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
        for name in ("run", "record", "machine")
    }
    status = db.execute("SELECT status, count(*) FROM record GROUP BY status ORDER BY status")
    suites = db.execute("SELECT suite, count(*) FROM run GROUP BY suite ORDER BY suite")
    (keys,) = db.execute("SELECT count(DISTINCT key) FROM record").fetchone()
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "schema": schema,
        "runs": count["run"],
        "machines": count["machine"],
        "records": count["record"],
        "trials": keys,
        "status": dict(status.fetchall()),
        "suites": dict(suites.fetchall()),
    }


def prune(db: sqlite3.Connection) -> int:
    """Keep of each suite, truth and key what its newest run says; how many records went."""
    db.execute(
        """
        DELETE FROM run_record WHERE (run, key) NOT IN (
            SELECT run, key FROM (
                SELECT run.id AS run, run_record.key AS key, max(run.started)
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


def conflicts(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Trials that the same code answered differently here and in the attached store ``other``.

    Of each key and code the newest record counts; what ended at a limit of its machine is no
    answer.
    """

    def newest(store: str) -> str:
        return (
            f"SELECT *, max(finished) FROM {store}.record "  # noqa: S608
            f"WHERE status IN {_ANSWERS} GROUP BY key, code_digest"
        )

    differ = " OR ".join(f"mine.{name} IS NOT theirs.{name}" for name in _ANSWER)
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
    return db.execute(query).fetchall()


def told_by_other_code(db: sqlite3.Connection) -> int:
    """How many trials both stores hold, though not from the same code."""
    (count,) = db.execute(
        "SELECT count(DISTINCT key) FROM main.record AS mine WHERE EXISTS "
        "(SELECT 1 FROM other.record AS theirs WHERE theirs.key = mine.key) AND NOT EXISTS "
        "(SELECT 1 FROM other.record AS theirs WHERE theirs.key = mine.key "
        "AND theirs.code_digest = mine.code_digest)"
    ).fetchone()
    return int(count)


def merge(db: sqlite3.Connection) -> int:
    """Copy what the attached store ``other`` has and this one has not; how many records."""
    specs = "digest, kind, reference, plugin, params, worlds, version, origin"
    runs = "id, suite, truth, command, started, finished, planned, exit_code"
    columns = [row[1] for row in db.execute("PRAGMA main.table_info(record)")]
    own = [name for name in columns if name not in ("id", "environment", "estimator")]
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
        f"SELECT {', '.join(f'run.{name.strip()}' for name in runs.split(','))}, here.id "
        "FROM other.run AS run JOIN other.machine AS there ON there.id = run.machine "
        "JOIN main.machine AS here ON here.digest = there.digest"
    )
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
