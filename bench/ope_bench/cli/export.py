"""``ope-bench export``: all stored outcomes as one table."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.cli.output import Format, FormatOption, document, note
from ope_bench.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from ope_bench.store import Result

__all__ = ["COLUMNS", "export", "row_of"]

COLUMNS: dict[str, str] = {
    "key": "string",
    "code_digest": "string",
    "run_id": "string",
    "suite": "string",
    "environment": "string",
    "environment_params": "string",
    "estimator": "string",
    "params": "string",
    "replicate": "int64",
    "seed": "int64",
    "device": "string",
    "status": "string",
    "estimate": "double",
    "standard_error": "double",
    "truth_expected": "double",
    "truth_empirical": "double",
    "fit_seconds": "double",
    "fit_cpu_seconds": "double",
    "estimate_seconds": "double",
    "peak_rss_bytes": "int64",
    "diagnostics": "string",
    "error_type": "string",
    "error_message": "string",
}
"""Columns and their types; nested values are JSON text."""


def export(
    to: Annotated[Path, typer.Option("--to", help="A .parquet, .csv or .jsonl file.")],
    suite: Annotated[str | None, typer.Option(help="Only what runs of this suite hold.")] = None,
    run: Annotated[str | None, typer.Option(help="Only what this run holds.")] = None,
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Write the newest outcome of every stored trial to a file."""
    from ope_bench.store import Store
    from ope_bench.whole_files import written_whole

    write_rows = _writer(to)
    with document(output) as emit:
        with Store.open(store) as opened:
            if told := opened.without_runs_of(suite):
                note(told)
            with written_whole(to, UsageError) as partial:
                count = write_rows(partial, map(row_of, opened.results(suite=suite, run=run)))
        emit({"schema": 1, "file": str(to), "rows": count, "columns": list(COLUMNS)})
    note(f"{count} rows in {to}")
    return 0


def row_of(result: Result) -> dict[str, Any]:
    """A stored outcome as a row."""
    record, trial = result.record, result.record.trial
    worlds = {"worlds": trial.environment.worlds}
    known: dict[str, Any] = {
        "run_id": result.run.id,
        "suite": result.run.suite,
        "environment": trial.environment.id,
        "environment_params": _json({**trial.environment.params, **worlds}),
        "estimator": trial.estimator.id,
        "params": _json(trial.estimator.params),
        "replicate": trial.replicate,
        "seed": trial.seed,
        "device": trial.device,
        "status": record.status.value,
        "diagnostics": _json(record.diagnostics),
    }
    return {name: known[name] if name in known else getattr(record, name) for name in COLUMNS}


def _json(value: Any) -> str:
    from ope_bench.cli.output import plain

    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


Rows = Iterator[dict[str, Any]]


def _writer(to: Path) -> Callable[[Path, Rows], int]:
    writers = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}
    writer = writers.get(to.suffix.lower())
    if writer is None:
        hint = did_you_mean(to.suffix.lower(), writers)
        msg = f"--to {to}: the name must end in .parquet, .csv or .jsonl{hint}"
        raise UsageError(msg)
    if writer is _write_parquet:
        try:
            import pyarrow.parquet  # noqa: F401  to know before the store is read
        except ImportError as exc:
            msg = f'--to {to} needs an extra: pip install "ope-bench[parquet]"'
            raise UsageError(msg) from exc
    return writer


def _write_csv(path: Path, rows: Rows) -> int:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        return _counted(rows, writer.writerow)


def _write_jsonl(path: Path, rows: Rows) -> int:
    with path.open("w", encoding="utf-8") as stream:
        return _counted(rows, lambda row: _write_line(stream, row))


def _write_line(stream: IO[str], row: dict[str, Any]) -> None:
    for name in ("environment_params", "params", "diagnostics"):
        row[name] = json.loads(row[name])
    stream.write(json.dumps(row, allow_nan=False) + "\n")


def _counted(rows: Rows, write_row: Callable[[dict[str, Any]], object]) -> int:
    count = 0
    for row in rows:
        write_row(row)
        count += 1
    return count


def _write_parquet(path: Path, rows: Rows) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = list(rows)
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    pq.write_table(pa.Table.from_pylist(table, schema=schema), path, compression="zstd")
    return len(table)
