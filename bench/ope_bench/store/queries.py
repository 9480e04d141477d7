"""The store's longer statements."""

from __future__ import annotations

from ope_bench.rows import RECORD_COLUMNS, SPEC_COLUMNS

__all__ = ["ALL_SPECS", "BY_KEY", "BY_SETTING", "CURRENT", "INSERT", "INSERT_SPEC", "RESULTS"]

RESULTS = f"""
    WITH chosen AS (
        SELECT run_record.record AS record, run.id AS run, max(run.started)
        FROM run_record JOIN run ON run.id = run_record.run
        WHERE (:suite IS NULL OR run.suite = :suite) AND (:run IS NULL OR run.id = :run)
        GROUP BY run.truth, run_record.key
    )
    SELECT {", ".join(f"record.{name}" for name in RECORD_COLUMNS)},
        record.environment, record.estimator, record.replicate, record.seed, record.device,
        record.threads, record.run, chosen.run, world.label, method.label
    FROM chosen
    JOIN record ON record.id = chosen.record
    JOIN spec AS setting ON setting.id = record.environment
    LEFT JOIN label AS world ON world.run = chosen.run AND world.spec = record.environment
    LEFT JOIN label AS method ON method.run = chosen.run AND method.spec = record.estimator
    ORDER BY """  # noqa: S608  column names of our own

BY_KEY = "record.key, chosen.run"
# Two specs may be one setting, of two versions of a distribution.
BY_SETTING = f"setting.plugin, setting.params, setting.worlds, setting.version, {BY_KEY}"

ALL_SPECS = f"SELECT id, {', '.join(SPEC_COLUMNS)} FROM spec"  # noqa: S608

_ADDED = "key, run, finished, timeout, memory, environment, estimator, replicate, seed, device"
INSERT = (
    f"INSERT INTO record ({_ADDED}, threads, {', '.join(RECORD_COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * (11 + len(RECORD_COLUMNS)))})"
)
INSERT_SPEC = (
    f"INSERT OR IGNORE INTO spec (digest, {', '.join(SPEC_COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * (1 + len(SPEC_COLUMNS)))})"
)
CURRENT = (
    f"SELECT key, timeout, memory, {', '.join(RECORD_COLUMNS)} FROM record "  # noqa: S608
    "WHERE key IN (SELECT value FROM json_each(?)) ORDER BY finished, id"
)
