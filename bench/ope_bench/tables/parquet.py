"""Tables from parquet files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.plugins.requirements import import_all
from ope_bench.tables.errors import DataFileError
from ope_bench.tables.table import StringColumn, Table, column_indices

__all__ = ["read_parquet"]


def read_parquet(
    path: Path,
    numbers: Sequence[str],
    words: Sequence[str] | None,
    optional: Collection[str] = (),
) -> Table:
    """Read the named columns; see `ope_bench.tables.reading.read_table`."""
    import_all(["pyarrow.parquet"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            header = file.schema_arrow.names
            if words is None:
                asked = set(numbers)
                words = [name for name in header if name not in asked]
            column_indices(path, header, (*numbers, *words))
            chunks: dict[str, list[FloatArray]] = {name: [] for name in numbers}
            columns = {name: StringColumn() for name in words}
            done = 0
            for batch in file.iter_batches(columns=list({*numbers, *words})):
                for name in {*numbers, *words} - {*optional}:
                    _require_values(path, batch.column(name), name, done)
                for name in numbers:
                    may_miss = name in optional
                    chunks[name].append(_floats(path, batch.column(name), name, done, may_miss))
                for name in words:
                    _extend(columns[name], batch.column(name))
                done += batch.num_rows
    except (pa.ArrowInvalid, OSError) as exc:
        what = f"is not a parquet file, or damaged: {str(exc).splitlines()[0]}"
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


def _extend(words: StringColumn, column: Any) -> None:
    """Append a column of words; each distinct value becomes text once, a missing one is empty."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        words.extend("" if value is None else _word(value) for value in column.to_pylist())
        return
    encoded = column.dictionary_encode()
    distinct = list(map(_word, encoded.dictionary.to_pylist()))
    words.extend_coded(np.asarray(encoded.indices, dtype=np.int64), distinct)


def _floats(
    path: Path, column: object, name: str, done: int, optional: bool = False
) -> FloatArray:
    import pyarrow as pa

    try:
        values = np.asarray(column.cast(pa.float64()), dtype=np.float64)  # type: ignore[attr-defined]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        where = f"rows from {done + 1:,}, column '{name}'"
        raise DataFileError(path, f"contains {column.type}, not numbers", where=where) from exc  # type: ignore[attr-defined]
    fine = np.isfinite(values) | np.isnan(values) if optional else np.isfinite(values)
    if not fine.all():
        row = int(np.argmin(fine))
        where = f"row {done + row + 1:,}, column '{name}'"
        raise DataFileError(path, f"{values[row]} is not a finite number", where=where)
    return values


def _word(value: object) -> str:
    """Return a value as text; whole floats as integers, since CSV files write them so."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
