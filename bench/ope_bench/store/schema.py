"""The tables, as ordered, named migrations; each in one transaction with its own record."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence

from ope_bench.store.transaction import transaction

__all__ = ["ADDED", "APPLICATION_ID", "MIGRATIONS", "migrate", "view_older"]

APPLICATION_ID = 0x4F504542
"""``OPEB`` in the file's header distinguishes stores from other SQLite files."""

MIGRATIONS: Sequence[tuple[str, Sequence[str]]] = (
    (
        "first tables",
        (
            """
            CREATE TABLE machine (
                id INTEGER PRIMARY KEY,
                digest TEXT NOT NULL UNIQUE,
                facts TEXT NOT NULL
            ) STRICT
            """,
            """
            CREATE TABLE run (
                id TEXT PRIMARY KEY,
                suite TEXT NOT NULL,
                truth TEXT NOT NULL,
                command TEXT NOT NULL,
                started REAL NOT NULL,
                finished REAL,
                planned INTEGER NOT NULL,
                exit_code INTEGER,
                machine INTEGER NOT NULL REFERENCES machine (id)
            ) STRICT, WITHOUT ROWID
            """,
            """
            CREATE TABLE spec (
                id INTEGER PRIMARY KEY,
                digest TEXT NOT NULL UNIQUE,
                kind TEXT NOT NULL,
                reference TEXT NOT NULL,
                plugin TEXT NOT NULL,
                params TEXT NOT NULL,
                worlds TEXT NOT NULL,
                version INTEGER NOT NULL,
                origin TEXT NOT NULL
            ) STRICT
            """,
            """
            CREATE TABLE label (
                run TEXT NOT NULL REFERENCES run (id),
                spec INTEGER NOT NULL REFERENCES spec (id),
                label TEXT NOT NULL,
                PRIMARY KEY (run, spec)
            ) STRICT, WITHOUT ROWID
            """,
            """
            CREATE TABLE record (
                id INTEGER PRIMARY KEY,
                key TEXT NOT NULL,
                run TEXT NOT NULL REFERENCES run (id),
                finished REAL NOT NULL,
                timeout REAL,
                memory INTEGER,
                environment INTEGER NOT NULL REFERENCES spec (id),
                estimator INTEGER NOT NULL REFERENCES spec (id),
                replicate INTEGER NOT NULL,
                seed INTEGER NOT NULL,
                device TEXT NOT NULL,
                threads INTEGER NOT NULL,
                code_digest TEXT NOT NULL,
                status TEXT NOT NULL,
                estimate REAL,
                standard_error REAL,
                fallback REAL,
                truth_expected REAL,
                truth_expected_se REAL,
                truth_empirical REAL,
                logging_average REAL,
                unsupported_mass REAL,
                observed_unsupported_mass REAL,
                n_logged_actions INTEGER,
                n_target_actions INTEGER,
                ess_fraction REAL,
                max_weight_share REAL,
                fit_seconds REAL,
                fit_cpu_seconds REAL,
                estimate_seconds REAL,
                shared_seconds REAL,
                peak_rss_bytes INTEGER,
                gpu_peak_bytes INTEGER,
                exclusive INTEGER NOT NULL,
                diagnostics TEXT NOT NULL,
                access TEXT NOT NULL,
                origin TEXT NOT NULL,
                environment_origin TEXT NOT NULL,
                error_type TEXT,
                error_message TEXT,
                traceback TEXT,
                output_tail TEXT
            ) STRICT
            """,
            "CREATE INDEX record_key ON record (key, finished)",
            """
            CREATE TABLE run_record (
                run TEXT NOT NULL REFERENCES run (id),
                key TEXT NOT NULL,
                record INTEGER NOT NULL REFERENCES record (id),
                PRIMARY KEY (run, key)
            ) STRICT, WITHOUT ROWID
            """,
            f"PRAGMA application_id = {APPLICATION_ID}",
        ),
    ),
    (
        "notes of records, order of runs",
        (
            "ALTER TABLE record ADD COLUMN note TEXT",
            "ALTER TABLE run ADD COLUMN number INTEGER",
            """
            UPDATE run SET number = (
                SELECT count(*) FROM run AS other
                WHERE (other.started, other.id) <= (run.started, run.id)
            )
            """,
        ),
    ),
    (
        "intervals",
        (
            "ALTER TABLE record ADD COLUMN interval_low REAL",
            "ALTER TABLE record ADD COLUMN interval_high REAL",
            "ALTER TABLE record ADD COLUMN interval_level REAL",
            "ALTER TABLE record ADD COLUMN interval_kind TEXT",
        ),
    ),
    ("checksums of records", ("ALTER TABLE record ADD COLUMN checksum INTEGER",)),
)

ADDED: Mapping[int, Mapping[str, Mapping[str, str]]] = {
    2: {
        "record": {"note": "NULL"},
        "run": {"number": "row_number() OVER (ORDER BY started, id)"},
    },
    3: {
        "record": {
            "interval_low": "NULL",
            "interval_high": "NULL",
            "interval_level": "NULL",
            "interval_kind": "NULL",
        },
    },
    4: {"record": {"checksum": "NULL"}},
}
"""Columns by the migration that adds them, by table, and what stands for them before it."""


def view_older(connection: sqlite3.Connection, version: int) -> None:
    """Let a store of an older schema be read as one of today's, without a change of its file."""
    missing: dict[str, dict[str, str]] = {}
    for number, tables in ADDED.items():
        for table, columns in tables.items() if number > version else ():
            missing.setdefault(table, {}).update(columns)
    for table, columns in missing.items():
        shown = ", ".join(["*", *(f"{value} AS {name}" for name, value in columns.items())])
        # Temporary views hide the tables of the file that have the same name.
        view = f"CREATE TEMP VIEW {table} AS SELECT {shown} FROM main.{table}"  # noqa: S608
        connection.execute(view)


def migrate(
    connection: sqlite3.Connection,
    migrations: Sequence[tuple[str, Sequence[str]]] = MIGRATIONS,
) -> None:
    """Apply the missing migrations, in order."""
    (have,) = connection.execute("PRAGMA user_version").fetchone()
    for number, (name, statements) in enumerate(migrations, start=1):
        if number <= have:
            continue
        with transaction(connection):
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migration "
                "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied REAL NOT NULL) STRICT"
            )
            for statement in statements:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migration VALUES (?, ?, ?)", (number, name, time.time())
            )
            connection.execute(f"PRAGMA user_version = {number}")
