"""Export stored outcomes as one flat table: Parquet, CSV or JSON lines.

Lists and mappings are JSON: text in tables, nested in JSON lines. A Parquet file also holds the
facts of the runs, so that `ope_bench.store.exported` can read it as a store.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ope_bench.base.canonical import plain
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.printable import without_formula
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store.reader import Result, Run
from ope_bench.trials.record import RECORD

if TYPE_CHECKING:
    from ope_bench.reader.mistakes import Columns

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
    "salt": "string",
    "threads": "int64",
    "environment_version": "int64",
    "environment_reference": "string",
    "reference": "string",
    "environment_label": "string",
    "label": "string",
    "made_by": "string",
    "estimator_digest": "string",
    "signal": "double",
}
"""Columns and their types."""

RUNS = "ope_bench.runs"
"""Name of the facts of runs in the metadata of a Parquet file."""

Rows = Iterator[dict[str, Any]]

ROW_GROUP = 20_000
"""Rows of a Parquet file that are objects of Python at once, some thirty megabytes."""


def rows_of(results: Iterable[Result]) -> Rows:
    """Yield stored outcomes as rows of ``COLUMNS``."""
    # Thousands of trials share a spec; the spec is kept so that its id stays its own.
    known: dict[int, tuple[PluginSpec, str]] = {}
    further = [(name, kind) for name, kind in _OF_RECORD.items() if name != "code_digest"]

    def params(spec: PluginSpec, **more: str) -> str:
        if id(spec) not in known:
            known[id(spec)] = spec, _json({**spec.params, **more})
        return known[id(spec)][1]

    for result in results:
        trial = result.record.trial
        environment, estimator = trial.environment, trial.estimator
        yield {
            "key": trial.key,
            "code_digest": result.record.code_digest,
            "run_id": result.run.id,
            "suite": result.run.suite,
            "environment": environment.id,
            "environment_params": params(environment, worlds=environment.worlds),
            "estimator": estimator.id,
            "params": params(estimator),
            "replicate": trial.replicate,
            "seed": trial.seed,
            "device": trial.device.value,
            **{name: _cell(getattr(result.record, name), kind) for name, kind in further},
            "salt": trial.salt,
            "threads": trial.threads,
            "environment_version": environment.version,
            "environment_reference": environment.reference,
            "reference": estimator.reference,
            "environment_label": environment.label,
            "label": estimator.label,
            "made_by": result.made_by,
            "estimator_digest": result.estimator_digest,
            "signal": result.record.signal,
        }


def _json(value: Any) -> str:
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


def _cell(value: Any, kind: str) -> Any:
    # In its own order, in which boards show diagnostics.
    return (
        json.dumps(plain(value), separators=(",", ":"))
        if kind == "json"
        else (value.value if isinstance(value, Enum) else value)
    )


Writer = Callable[[Path, Rows, Sequence[Run]], int]


def writer_for(path: Path) -> Writer:
    """Return a function that writes rows to a file and counts them, by the ending of its name.

    It is also given the runs of the store; a Parquet file keeps those that the rows name.

    Raises
    ------
    UsageError : the ending is unknown.
    """
    writers = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        hint = did_you_mean(path.suffix.lower(), writers)
        msg = f"--to {path}: the name must end in .parquet, .csv or .jsonl{hint}"
        raise UsageError(msg)
    return writer


def _write_csv(path: Path, rows: Rows, _: Sequence[Run]) -> int:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        count = 0
        for row in rows:
            safe = {
                name: without_formula(value) if isinstance(value, str) else value
                for name, value in row.items()
            }
            writer.writerow(safe)
            count += 1
    return count


def _write_jsonl(path: Path, rows: Rows, _: Sequence[Run]) -> int:
    nested = [name for name, kind in COLUMNS.items() if kind == "json"]
    count = 0
    with path.open("w", encoding="utf-8") as stream:
        for row in rows:
            values = row | {name: json.loads(row[name]) for name in nested}
            stream.write(json.dumps(values, allow_nan=False) + "\n")
            count += 1
    return count


def column_types() -> dict[str, Any]:
    """Return the columns of a Parquet file with their types."""
    from ope_bench.reader.library import library  # each run imports this module

    pl = library()
    kinds = {"int64": pl.Int64, "double": pl.Float64, "bool": pl.Boolean}
    return {name: kinds.get(kind, pl.String) for name, kind in COLUMNS.items()}


def _write_parquet(path: Path, rows: Rows, runs: Sequence[Run]) -> int:
    from ope_bench.reader.library import library

    pl, types = library(), column_types()
    groups, named = [pl.DataFrame(schema=types)], set[str]()
    while group := list(islice(rows, ROW_GROUP)):
        groups.append(pl.DataFrame(group, schema=types))
        named.update(row.get(name, "") for row in group for name in ("run_id", "made_by"))
    frame = pl.concat(groups)
    kept = [vars(run) for run in runs if run.id in named]
    frame.write_parquet(
        path, compression="zstd", row_group_size=ROW_GROUP, metadata={RUNS: _json(kept)}
    )
    return int(frame.height)


def read_parquet(path: Path, columns: Columns = None) -> tuple[Any, str | None]:
    """Return a Parquet file as a Polars frame, and the facts of its runs as JSON.

    Parameters
    ----------
    path, columns : as for `ope_bench.read_table`; columns that nobody asks for are not read.

    Raises
    ------
    DataFileError : it is damaged, or has more rows than fit in memory.
    """
    from ope_bench.reader.files import binary_frame
    from ope_bench.reader.library import library

    pl = library()
    frame = binary_frame(path, "Parquet", pl.scan_parquet, columns)
    return frame, pl.read_parquet_metadata(path).get(RUNS)
