"""Tables from parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.requirements import import_all
from ope_environments.data_files import DataFileError
from ope_environments.tables import Table, Words, column_index

__all__ = ["read_parquet"]


def read_parquet(path: Path, numbers: Sequence[str], words: Sequence[str] | None) -> Table:
    """The named columns; see `ope_environments.tables.read_table`."""
    import_all(["pyarrow.parquet"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            header = file.schema_arrow.names
            if words is None:
                words = [name for name in header if name not in numbers]
            for name in (*numbers, *words):
                column_index(path, header, name)
            chunks: dict[str, list[FloatArray]] = {name: [] for name in numbers}
            columns = {name: Words() for name in words}
            done = 0
            for batch in file.iter_batches(columns=list({*numbers, *words})):
                for name in (*numbers, *words):
                    _require_values(path, batch.column(name), name, done)
                for name in numbers:
                    chunks[name].append(_floats(path, batch.column(name), name, done))
                for name in words:
                    columns[name].extend(map(str, batch.column(name).to_pylist()))
                done += batch.num_rows
    except (pa.ArrowInvalid, OSError) as exc:
        what = f"is no parquet file, or damaged: {str(exc).splitlines()[0]}"
        raise DataFileError(path, what) from exc
    if done == 0:
        raise DataFileError(path, "has columns but no rows")
    found = {name: np.concatenate(parts) for name, parts in chunks.items()}
    return Table(path, lambda row: f"row {row + 1:,}", found, columns)


def _require_values(path: Path, column: object, name: str, done: int) -> None:
    missing = np.asarray(column.is_null())  # type: ignore[attr-defined]
    if missing.any():
        where = f"row {done + int(np.argmax(missing)) + 1:,}, column '{name}'"
        raise DataFileError(path, "the value is missing", where=where)


def _floats(path: Path, column: object, name: str, done: int) -> FloatArray:
    import pyarrow as pa

    try:
        values = np.asarray(column.cast(pa.float64()), dtype=np.float64)  # type: ignore[attr-defined]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        where = f"rows from {done + 1:,}, column '{name}'"
        raise DataFileError(path, f"holds {column.type}, not numbers", where=where) from exc  # type: ignore[attr-defined]
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        where = f"row {done + row + 1:,}, column '{name}'"
        raise DataFileError(path, f"{values[row]} is not a finite number", where=where)
    return values
