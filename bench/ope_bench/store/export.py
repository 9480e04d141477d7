"""Export stored outcomes as one flat table: Parquet, CSV or JSON lines.

Lists and mappings are JSON: text in tables, nested in JSON lines.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from ope_bench.canonical import plain
from ope_bench.errors import UsageError, did_you_mean
from ope_bench.printable import without_formula
from ope_bench.store.results import Result
from ope_bench.trials.serialization import RECORD

__all__ = ["COLUMNS", "row_of", "writer_for"]

_OF_RECORD = {column.name: column.type for column in RECORD if column.exported}

COLUMNS: dict[str, str] = {
    "key": "string",
    "code_digest": _OF_RECORD["code_digest"],
    "run_id": "string",
    "suite": "string",
    "environment": "string",
    "environment_params": "json",
    "estimator": "string",
    "params": "json",
    "replicate": "int64",
    "seed": "int64",
    "device": "string",
    **_OF_RECORD,
}
"""Columns and their types."""

Rows = Iterator[dict[str, Any]]


def row_of(result: Result) -> dict[str, Any]:
    """Return a stored outcome as a row of ``COLUMNS``."""
    record, trial = result.record, result.record.trial
    row: dict[str, Any] = {
        "key": trial.key,
        "run_id": result.run.id,
        "suite": result.run.suite,
        "environment": trial.environment.id,
        "environment_params": {**trial.environment.params, "worlds": trial.environment.worlds},
        "estimator": trial.estimator.id,
        "params": trial.estimator.params,
        "replicate": trial.replicate,
        "seed": trial.seed,
        "device": trial.device,
    }
    return {name: _cell(row[name] if name in row else getattr(record, name)) for name in COLUMNS}


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping | tuple):
        return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))
    return value.value if isinstance(value, Enum) else value


def writer_for(path: Path) -> Callable[[Path, Rows], int]:
    """Return a function that writes rows to a file and counts them, by the ending of its name.

    Raises
    ------
    UsageError : the ending is unknown, or the package for such files is not installed.
    """
    writers = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        hint = did_you_mean(path.suffix.lower(), writers)
        msg = f"--to {path}: the name must end in .parquet, .csv or .jsonl{hint}"
        raise UsageError(msg)
    if writer is _write_parquet:
        try:
            import pyarrow.parquet  # noqa: F401  to know before the store is read
        except ImportError as exc:
            msg = f'--to {path} needs an extra: pip install "ope-bench[parquet]"'
            raise UsageError(msg) from exc
    return writer


def _write_csv(path: Path, rows: Rows) -> int:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(COLUMNS), lineterminator="\n")
        writer.writeheader()

        def write(row: dict[str, Any]) -> None:
            writer.writerow(
                {
                    name: without_formula(value) if isinstance(value, str) else value
                    for name, value in row.items()
                }
            )

        return _count(rows, write)


def _write_jsonl(path: Path, rows: Rows) -> int:
    nested = [name for name, kind in COLUMNS.items() if kind == "json"]
    with path.open("w", encoding="utf-8") as stream:

        def write(row: dict[str, Any]) -> None:
            values = row | {name: json.loads(row[name]) for name in nested}
            stream.write(json.dumps(values, allow_nan=False) + "\n")

        return _count(rows, write)


def _count(rows: Rows, write_row: Callable[[dict[str, Any]], object]) -> int:
    count = 0
    for row in rows:
        write_row(row)
        count += 1
    return count


def _write_parquet(path: Path, rows: Rows) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = list(rows)
    schema = pa.schema(
        [
            (name, pa.type_for_alias("string" if kind == "json" else kind))
            for name, kind in COLUMNS.items()
        ]
    )
    pq.write_table(pa.Table.from_pylist(table, schema=schema), path, compression="zstd")
    return len(table)
