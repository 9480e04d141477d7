"""Tables from files: delimited text, ARFF, parquet; errors name row and column.

pandas and pyarrow read CSV faster, but do not name the row and column of a wrong value.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
from collections.abc import Collection, Generator, Iterator, Sequence
from pathlib import Path

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.errors import UnavailableError
from ope_bench.tables.arff import arff_rows, is_arff
from ope_bench.tables.errors import DataFileError
from ope_bench.tables.parquet import read_parquet
from ope_bench.tables.table import (
    StringColumn,
    Table,
    column_indices,
    finite_number,
    is_missing,
    plain_digits,
)

__all__ = ["TextRow", "has_header", "read_rows", "read_table"]

TextRow = tuple[int, list[str]]
"""A line's number in its file, and its fields."""

ROWS_AT_ONCE = 1 << 15
_DELIMITERS = (",", ";", "\t", "|")


def read_table(
    path: Path,
    *,
    numbers: Sequence[str] = (),
    words: Sequence[str] | None = None,
    header: bool = True,
    optional: Collection[str] = (),
) -> Table:
    """Read the named columns of a file, whose format is recognized by its name and first line.

    Parameters
    ----------
    path : ``.parquet``, ARFF (KEEL's dialect included), or text with a header, separated by
        commas, semicolons, tabs or bars.
    numbers : columns that must contain finite numbers.
    words : columns of words; all other columns if None.
    header : whether the first line names the columns; else they are called 1, 2, ...
    optional : those of the named columns in which a value may be missing: NaN among numbers, an
        empty word among words.

    Raises
    ------
    UnavailableError : there is no such file, or a module is missing.
    DataFileError : it is empty, damaged or wrongly encoded, a column is missing, or a value is not
        a number; the message names line and column.
    """
    if not path.is_file():
        if path.exists():
            raise DataFileError(path, "a folder or a device; expected a file")
        msg = f"{path}: no such file"
        raise UnavailableError(msg)
    if path.suffix == ".parquet":
        return read_parquet(path, numbers, words, optional)
    # Closed explicitly: a generator that waits for garbage collection keeps its file open.
    with contextlib.closing(read_rows(path)) as rows:
        lines = rows if header else _numbered(path, rows)
        return _separated(path, lines, numbers, words, optional)


def has_header(path: Path) -> bool:
    """Return whether the first line of a text table is a header.

    It is in an attribute-relation file, and where none of its words is a number or appears in the
    same column of the next thousand rows.
    """
    with contextlib.closing(read_rows(path)) as rows:
        first, *others = (
            [field.strip() for field in fields] for _, fields in itertools.islice(rows, 1001)
        )
    with path.open(encoding="utf-8-sig") as stream:
        if is_arff(stream.readline(1 << 20)):
            return True
    again = any(word == field for row in others for word, field in zip(first, row, strict=False))
    return not again and all(finite_number(word) is None for word in first)


def _numbered(path: Path, rows: Iterator[TextRow]) -> Iterator[TextRow]:
    """Yield a header of column numbers, then the rows; a missing value is an error."""
    line, fields = next(rows)
    yield line, [str(k + 1) for k in range(len(fields))]
    for at, row in itertools.chain([(line, fields)], rows):
        for k, field in enumerate(row):
            if field.strip() in ("?", "<null>"):
                where = f"line {at:,}, column '{k + 1}'"
                raise DataFileError(path, "the value is missing", where=where)
        yield at, row


def _separated(
    path: Path,
    rows: Iterator[TextRow],
    numbers: Sequence[str],
    words: Sequence[str] | None,
    optional: Collection[str],
) -> Table:
    _, header = next(rows)
    header = [name.strip() for name in header]
    known: set[str] = set()
    for name in header:
        if name in known:
            raise DataFileError(path, f"two columns are called '{name}'")
        known.add(name)
    if words is None:
        asked = set(numbers)
        words = [name for name in header if name not in asked]
    at = column_indices(path, header, (*numbers, *words))
    number_chunks: dict[str, list[FloatArray]] = {name: [] for name in numbers}
    word_columns = {name: StringColumn() for name in words}
    lines: list[IntArray] = []
    while chunk := list(itertools.islice(rows, ROWS_AT_ONCE)):
        for line, fields in chunk:
            if len(fields) != len(header):
                what = f"{len(fields)} fields; the header names {len(header)} columns"
                raise DataFileError(path, what, where=f"line {line:,}")
        lines.append(np.array([line for line, _ in chunk], dtype=np.int64))
        for name in numbers:
            number_chunks[name].append(_parsed(path, chunk, at[name], name, name in optional))
        for name in words:
            column = (fields[at[name]].strip() for _, fields in chunk)
            if name in optional:
                column = ("" if is_missing(word) else word for word in column)
            word_columns[name].extend(column)
    if not lines:
        raise DataFileError(path, "has a header but no rows")
    line_of = np.concatenate(lines)
    columns = {name: np.concatenate(chunks) for name, chunks in number_chunks.items()}
    return Table(path, lambda row: f"line {int(line_of[row]):,}", columns, word_columns)


def _parsed(
    path: Path, chunk: list[TextRow], at: int, name: str, optional: bool = False
) -> FloatArray:
    words = [fields[at] for _, fields in chunk]
    if optional:
        present = np.array([not is_missing(word) for word in words], dtype=bool)
        if not present.all():
            values = np.full(len(words), np.nan)
            rest = [row for row, keep in zip(chunk, present, strict=True) if keep]
            if rest:
                values[present] = _parsed(path, rest, at, name)
            return values
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        return _first_wrong(path, chunk, at, name)
    if not np.isfinite(values).all() or not plain_digits("".join(words)):
        return _first_wrong(path, chunk, at, name)
    return values


def _first_wrong(path: Path, chunk: list[TextRow], at: int, name: str) -> FloatArray:
    """Raise the error of the first field that is not a finite number; else parse one by one."""
    values = []
    for line, fields in chunk:
        value = finite_number(fields[at])
        if value is None:
            what = f"{fields[at][:40]!r} is not a finite number"
            if is_missing(fields[at]):
                what = "the value is missing"
            raise DataFileError(path, what, where=f"line {line:,}, column '{name}'")
        values.append(value)
    return np.array(values)


def read_rows(
    path: Path, *, encoding: str = "utf-8-sig", delimiter: str | None = None
) -> Generator[TextRow, None, None]:
    """Yield the lines of a text table that are not blank, the header first.

    Parameters
    ----------
    path : the file.
    encoding : encoding of the text.
    delimiter : delimiter of fields; if None, the most frequent one of the first line.
    """
    number = 0
    try:
        with path.open(encoding=encoding, newline="") as stream:
            first = stream.readline(1 << 20)
            stream.seek(0)
            if not first.strip():
                stream_is_empty = not stream.read(1 << 20).strip()
                what = "is empty" if stream_is_empty else "starts with a blank line, not a header"
                raise DataFileError(path, what)
            if is_arff(first):
                yield from arff_rows(path, stream)
                return
            if delimiter is None:
                delimiter = max(_DELIMITERS, key=first.count)
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            for fields in reader:
                number = reader.line_num
                if fields:
                    yield number, fields
    except UnicodeDecodeError as exc:
        raise _wrongly_encoded(path, encoding) from exc
    except csv.Error as exc:
        raise DataFileError(path, f"{exc}", where=f"line {number + 1:,}") from exc
    except OSError as exc:
        raise DataFileError(path, f"cannot be read: {exc.strerror or exc}") from exc


def _wrongly_encoded(path: Path, encoding: str) -> DataFileError:
    """Locate the wrongly encoded line, which buffered decoding does not report."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as exc:
                shown = "UTF-8" if encoding == "utf-8-sig" else encoding
                what = f"byte {line[exc.start]:#04x} at column {exc.start + 1} is not {shown}"
                return DataFileError(path, f"{what}; save it as {shown}", where=f"line {number:,}")
    return DataFileError(path, f"is not {encoding}")
