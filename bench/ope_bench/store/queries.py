"""The longer SQL statements of the store."""

from __future__ import annotations

from ope_bench.trials.serialization import RECORD_COLUMNS, SPEC_COLUMNS, TRIAL_COLUMNS

__all__ = [
    "ALL_SPECS",
    "CURRENT",
    "END_RUN",
    "INSERT",
    "INSERT_MACHINE",
    "INSERT_RUN",
    "INSERT_SPEC",
    "SELECTED",
    "SPEC_ID",
]

INSERT_MACHINE = "INSERT OR IGNORE INTO machine (digest, facts) VALUES (?, ?)"
INSERT_RUN = """
    INSERT INTO run (id, suite, truth, command, started, planned, machine, number)
    VALUES (?, ?, ?, ?, ?, ?, (SELECT id FROM machine WHERE digest = ?),
        (SELECT coalesce(max(number), 0) + 1 FROM run))
"""
END_RUN = "UPDATE run SET finished = started + ?, exit_code = ? WHERE id = ?"

SELECTED = """
    WITH chosen AS (
        SELECT run_record.record AS record, run_record.key AS key, run.id AS run,
            max(run.number) AS number
        FROM run_record JOIN run ON run.id = run_record.run
        WHERE (:suite IS NULL OR run.suite = :suite) AND (:run IS NULL OR run.id = :run)
            AND (:truth IS NULL OR run.truth = :truth)
        GROUP BY run.truth, run_record.key
    )
    SELECT chosen.record, chosen.number, record.environment, record.estimator
    FROM chosen JOIN record ON record.id = chosen.record ORDER BY chosen.key, chosen.run
"""

SPEC_ID = "SELECT id FROM spec WHERE digest = ?"
ALL_SPECS = f"SELECT id, {', '.join(SPEC_COLUMNS)} FROM spec"  # noqa: S608

_ADDED = (
    *("key", "run", "finished", "timeout", "memory", "environment", "estimator"),
    *TRIAL_COLUMNS,
    *RECORD_COLUMNS,
    "checksum",
)
INSERT = (
    f"INSERT INTO record ({', '.join(_ADDED)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * len(_ADDED))})"
)
INSERT_SPEC = (
    f"INSERT OR IGNORE INTO spec (digest, {', '.join(SPEC_COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * (1 + len(SPEC_COLUMNS)))})"
)
# In the order in which they were written: clocks of machines differ, and are set back.
CURRENT = (
    f"SELECT key, timeout, memory, {', '.join(f'record.{name}' for name in RECORD_COLUMNS)} "  # noqa: S608
    "FROM record JOIN run ON run.id = record.run "
    "WHERE key IN (SELECT value FROM json_each(?)) ORDER BY run.number, record.id"
)
