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
from operator import attrgetter
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

_CELLS: dict[str, tuple[str, str]] = {
    "key": ("string", "record.trial.key"),
    "code_digest": ("string", "record.code_digest"),
    "run_id": ("string", "run.id"),
    "suite": ("string", "run.suite"),
    "environment": ("string", "record.trial.environment.id"),
    "environment_params": ("json", "record.trial.environment"),
    "estimator": ("string", "record.trial.estimator.id"),
    "params": ("json", "record.trial.estimator"),
    "replicate": ("int64", "record.trial.replicate"),
    "seed": ("int64", "record.trial.seed"),
    "device": ("string", "record.trial.device"),
    **{one.name: (one.type, f"record.{one.name}") for one in RECORD if one.exported},
    "salt": ("string", "record.trial.salt"),
    "threads": ("int64", "record.trial.threads"),
    "environment_version": ("int64", "record.trial.environment.version"),
    "environment_reference": ("string", "record.trial.environment.reference"),
    "reference": ("string", "record.trial.estimator.reference"),
    "environment_label": ("string", "record.trial.environment.label"),
    "label": ("string", "record.trial.estimator.label"),
    "made_by": ("string", "made_by"),
    "estimator_digest": ("string", "estimator_digest"),
    "signal": ("double", "record.signal"),
}
"""Columns with their types, and where a stored outcome has their values."""

COLUMNS = {name: kind for name, (kind, _) in _CELLS.items()}
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
    values_of = attrgetter(*(path for _, path in _CELLS.values()))

    def cell(value: Any, kind: str) -> Any:
        if isinstance(value, PluginSpec):
            if id(value) not in known:
                worlds = {"worlds": value.worlds} if value.kind == "environment" else {}
                known[id(value)] = value, _json({**value.params, **worlds})
            return known[id(value)][1]
        if kind == "json":
            # In its own order, in which boards show diagnostics.
            return json.dumps(plain(value), separators=(",", ":"))
        return value.value if isinstance(value, Enum) else value

    for result in results:
        cells = map(cell, values_of(result), COLUMNS.values())
        yield dict(zip(COLUMNS, cells, strict=True))


def _json(value: Any) -> str:
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


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
