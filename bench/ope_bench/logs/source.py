"""Tables from files, data frames and mappings of columns, with the same checks."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench import tables
from ope_bench.base.errors import UsageError
from ope_bench.contracts.arrays import FloatArray
from ope_bench.plugins.requirements import import_all

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

LOOKED_AT = 1000
"""Rows of a text table in which columns of words are looked for."""


def load_table(
    source: Any, *, numbers: Sequence[str], words: Sequence[str], optional: Collection[str] = ()
) -> tables.Table:
    """Load the named columns.

    Parameters
    ----------
    source : path of a table, or a data frame or mapping of columns.
    numbers, words, optional : as for `ope_bench.tables.read_table`.

    Raises
    ------
    DataFileError : a column is missing or a value is wrong; the message has row and column.
    """
    try:
        path = path_of(source)
        if not isinstance(source, str | Path):
            table = _table_of_frame(path, _columns(source), numbers, words)
        elif path.exists():
            table = tables.read_table(path, numbers=numbers, words=words, optional=optional)
        else:
            raise tables.DataFileError(path, "no such file")
        for name in (*numbers, *words):
            if name not in optional and (missing := table.missing(name)).any():
                table.raise_error(int(np.argmax(missing)), name, "the value is missing")
    except tables.DataFileError as exc:
        cure = next((f"; {cure}" for part, cure in _CURES.items() if part in exc.what), "")
        raise tables.DataFileError(exc.path, f"{exc.what}{cure}", where=exc.where) from exc
    return table


def refuse_first(
    table: tables.Table, column: str, values: FloatArray, wrong: BoolArray, what: str
) -> None:
    """Raise an error at the first wrong value of a column, if there is one."""
    if wrong.any():
        row = int(np.argmax(wrong))
        table.raise_error(row, column, f"{values[row]:g} {what}")


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
"""Advice to users, by a part of the message."""


def path_of(source: Any) -> Path:
    """Return the path of a table, or what stands for it in messages."""
    return Path(source) if isinstance(source, str | Path) else Path("the frame")


def _table_of_frame(
    path: Path, columns: Mapping[str, Any], numbers: Sequence[str], words: Sequence[str]
) -> tables.Table:
    tables.column_indices(path, list(columns), (*numbers, *words))
    lengths = {name: len(columns[name]) for name in (*numbers, *words)}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise tables.DataFileError(path, f"columns differ in length ({shown})")
    if not next(iter(lengths.values()), 0):
        raise tables.DataFileError(path, "has columns but no rows")
    values: dict[str, FloatArray] = {}
    texts = {name: columns[name] for name in words}
    for name in numbers:
        column = columns[name]
        if column.dtype.kind in "biuf":
            values[name] = column.astype(np.float64)
        else:
            # The text of a date is refused below; its integer would not be.
            texts[name] = column.astype(str) if column.dtype.kind in "mM" else column
    coded = {name: _words(column) for name, column in texts.items()}
    table = tables.Table(path, lambda row: f"row {row:,}", values, coded)
    for name in numbers:
        # Raises at the first value that is no finite number.
        table.number(name)
    return table


def _columns(source: Any) -> dict[str, Any]:
    """Return columns by name of a mapping, a data frame or a structured array."""
    # Half a megabyte without dependencies, but imported for frames only: files need none.
    import narwhals

    if isinstance(source, Mapping):
        return {str(name): np.asarray(column) for name, column in source.items()}
    if isinstance(source, np.ndarray) and source.dtype.names:
        return {name: source[name] for name in source.dtype.names}
    frame = narwhals.from_native(source, pass_through=True)
    if frame is source and hasattr(source, "to_table"):
        # A pyarrow dataset is no frame, but gives one.
        frame = narwhals.from_native(source.to_table())
    if frame is not source:
        whole = frame.collect() if isinstance(frame, narwhals.LazyFrame) else frame
        return {str(name): whole[name].to_numpy() for name in whole.columns}
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        return {str(name): np.asarray(source[name]) for name in source.columns}
    msg = (
        f"expected a data frame (pandas, Polars, pyarrow, DuckDB) or a mapping of columns, not "
        f"{type(source).__name__}"
    )
    raise UsageError(msg)


def _words(column: Any) -> tables.StringColumn:
    words = tables.StringColumn()
    if column.dtype.kind in "biu":
        distinct, code = np.unique(column, return_inverse=True)
        words.extend_coded(code.reshape(-1), [str(value) for value in distinct.tolist()])
    else:
        words.extend(map(_text, column.tolist()))
    return words


def _text(value: Any) -> str:
    """Return the word of a frame's value, empty where it is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if tables.is_missing(text) else text


def column_names(source: Any) -> list[str]:
    """Return the names of a table's columns."""
    return _peek(source)[0]


def word_columns(source: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the columns that hold words, judged by the first thousand rows."""
    columns, numeric = _peek(source)
    place = tables.column_indices(path_of(source), columns, names)
    return tuple(name for name in names if not numeric[place[name]])


def _peek(source: Any) -> tuple[list[str], list[bool]]:
    """Return the names of a table's columns, and whether each holds numbers."""
    if not isinstance(source, str | Path):
        columns = _columns(source)
        return list(columns), [
            column.dtype.kind in "biuf" or _numeric(column[:LOOKED_AT].tolist())
            for column in columns.values()
        ]
    path = Path(source)
    if path.suffix == ".parquet":
        schema = _parquet_schema(path)
        import pyarrow.types as kinds

        tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)
        return schema.names, [any(test(kind) for test in tests) for kind in schema.types]
    if not path.is_file():
        raise tables.DataFileError(path, "no such file")
    with contextlib.closing(tables.read_rows(path)) as rows:
        header, *others = [fields for _, fields in itertools.islice(rows, LOOKED_AT + 1)]
    return [name.strip() for name in header], [
        _numeric(fields[place] for fields in others if place < len(fields))
        for place in range(len(header))
    ]


def _numeric(values: Iterable[Any]) -> bool:
    """Return whether all values are numbers or missing."""
    return all(text == "" or tables.finite_number(text) is not None for text in map(_text, values))


def _parquet_schema(path: Path) -> Any:
    import_all(["pyarrow.parquet"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as exc:
        what = f"is not a parquet file, or damaged: {str(exc).splitlines()[0]}"
        raise tables.DataFileError(path, what) from exc
