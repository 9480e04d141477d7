"""Tables from files, data frames and mappings of columns, with the same checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.errors import UsageError
from ope_bench.tables.errors import DataFileError
from ope_bench.tables.reading import read_rows, read_table
from ope_bench.tables.table import StringColumn, Table, column_indices, finite_number, is_missing

__all__ = ["column_names", "load_table", "word_columns"]

LOOKED_AT = 1000
"""Rows of a text table in which columns of words are looked for."""


def load_table(
    source: Any, *, numbers: Sequence[str], words: Sequence[str], optional: Collection[str] = ()
) -> Table:
    """Load the named columns.

    Parameters
    ----------
    source : path of a table, or a data frame or mapping of columns.
    numbers, words, optional : as for `ope_bench.tables.reading.read_table`.

    Raises
    ------
    DataFileError : a column is missing or a value is wrong; the message has row and column.
    """
    try:
        return _load(source, numbers, words, optional)
    except DataFileError as exc:
        raise _with_cure(exc) from exc


_CURES = {
    "the value is missing": "fill it in, or leave the row out",
    "is not a finite number": "write a number, or leave the row out",
    "fields; the header names": "quote fields that hold the separator",
    "two columns are called": "rename one of them",
    "is empty": "write a header and one row for each decision",
    "no rows": "write one row for each decision",
    "has no column": "correct the name where it is asked for, or in the table",
    "no such file": "paths are relative to the log file's folder",
}
"""What a user can do, by a part of the message."""


def _with_cure(exc: DataFileError) -> DataFileError:
    cure = next((cure for part, cure in _CURES.items() if part in exc.what), None)
    what = exc.what if cure is None else f"{exc.what}; {cure}"
    return DataFileError(exc.path, what, where=exc.where)


def _load(
    source: Any, numbers: Sequence[str], words: Sequence[str], optional: Collection[str]
) -> Table:
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise DataFileError(path, "no such file")
        table = read_table(path, numbers=numbers, words=words, optional=optional)
        for name in words:
            if name not in optional:
                _require_words(table, name)
        return table
    columns = _columns(source)
    path = Path(_NAME)
    column_indices(path, list(columns), (*numbers, *words))
    lengths = {name: len(columns[name]) for name in (*numbers, *words)}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataFileError(path, f"columns differ in length ({shown})")
    if not next(iter(lengths.values()), 0):
        raise DataFileError(path, "has columns but no rows")
    found = {name: _numbers(path, columns[name], name, name in optional) for name in numbers}
    coded = {name: _words(path, columns[name], name, name in optional) for name in words}
    return Table(path, _place, found, coded)


def _require_words(table: Table, name: str) -> None:
    if "" in table.word_columns[name].words:
        codes, distinct = table.words(name)
        row = int(np.argmax(codes == distinct.index("")))
        table.raise_error(row, name, "the value is missing")


_NAME = "the frame"


def _place(row: int) -> str:
    return f"row {row:,}"


def _columns(source: Any) -> dict[str, Any]:
    """Return columns by name of a mapping, a data frame or a structured array."""
    if isinstance(source, Mapping):
        return {str(name): np.asarray(column) for name, column in source.items()}
    if isinstance(source, np.ndarray) and source.dtype.names:
        return {name: source[name] for name in source.dtype.names}
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        return {str(name): np.asarray(source[name]) for name in source.columns}
    msg = f"expected a data frame or a mapping of columns, not {type(source).__name__}"
    raise UsageError(msg)


def _numbers(path: Path, column: Any, name: str, optional: bool) -> FloatArray:
    if column.dtype.kind in "biuf":
        values: FloatArray = column.astype(np.float64)
    else:
        values = np.array([_number(path, value, row, name) for row, value in enumerate(column)])
    wrong = np.isinf(values) | (~np.isfinite(values) & (not optional))
    if wrong.any():
        row = int(np.argmax(wrong))
        missing = np.isnan(values[row])
        what = "the value is missing" if missing else f"{values[row]} is not a finite number"
        raise DataFileError(path, what, where=f"{_place(row)}, column '{name}'")
    return values


def _number(path: Path, value: object, row: int, name: str) -> float:
    if value is None or value != value or is_missing(str(value)):
        return float("nan")
    number = finite_number(str(value))
    if number is None:
        what = f"{str(value)[:40]!r} is not a finite number"
        raise DataFileError(path, what, where=f"{_place(row)}, column '{name}'")
    return number


def _words(path: Path, column: Any, name: str, optional: bool) -> StringColumn:
    words = StringColumn()
    if column.dtype.kind in "biu":
        distinct, code = np.unique(column, return_inverse=True)
        words.extend_coded(code.reshape(-1), [str(value) for value in distinct.tolist()])
        return words
    texts = ["" if value is None or value != value else _text(value) for value in column.tolist()]
    if not optional and (row := next((k for k, text in enumerate(texts) if not text), -1)) >= 0:
        where = f"{_place(row)}, column '{name}'"
        raise DataFileError(path, "the value is missing", where=where)
    words.extend(texts)
    return words


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if is_missing(text) else text


def column_names(source: Any) -> list[str]:
    """Return the names of a table's columns."""
    if not isinstance(source, str | Path):
        return list(_columns(source))
    path = Path(source)
    if path.suffix == ".parquet":
        from ope_bench.plugins.requirements import import_all

        import_all(["pyarrow.parquet"])
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowInvalid, OSError) as exc:
            what = f"is not a parquet file, or damaged: {str(exc).splitlines()[0]}"
            raise DataFileError(path, what) from exc
    if not path.is_file():
        raise DataFileError(path, "no such file")
    rows = read_rows(path)
    try:
        return [name.strip() for name in next(rows)[1]]
    finally:
        rows.close()


def word_columns(source: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the columns that hold words, judged by the first thousand rows."""
    if not isinstance(source, str | Path):
        columns = _columns(source)
        column_indices(Path(_NAME), list(columns), names)
        return tuple(name for name in names if not _looks_numeric(columns[name]))
    path = Path(source)
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq
        import pyarrow.types as kinds

        header = column_names(path)
        column_indices(path, header, names)
        schema = pq.read_schema(path)
        numeric = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)
        return tuple(
            name for name in names if not any(kind(schema.field(name).type) for kind in numeric)
        )
    rows = read_rows(path)
    try:
        header = [name.strip() for name in next(rows)[1]]
        at = column_indices(path, header, names)
        first = [fields for _, (_, fields) in zip(range(LOOKED_AT), rows, strict=False)]
    finally:
        rows.close()
    return tuple(
        name
        for name in names
        if any(
            at[name] < len(fields)
            and not is_missing(fields[at[name]])
            and finite_number(fields[at[name]]) is None
            for fields in first
        )
    )


def _looks_numeric(column: Any) -> bool:
    if column.dtype.kind in "biuf":
        return True
    return all(
        value is None or value != value or finite_number(str(value)) is not None
        for value in column[:LOOKED_AT].tolist()
    )
