"""Tables in memory, and their files: delimited text, ARFF, Parquet.

An error names the row and the column. pandas and pyarrow read CSV faster, but do not name the
place of a wrong value; `scipy.io.arff` reads no strings and does not say in which line a file is
wrong.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from ope_bench.base.errors import UnavailableError, UsageError, did_you_mean
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.plugins.requirements import import_all

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})
_MISSING_IN_ARFF = ("?", "<null>")
ROWS_AT_ONCE = 1 << 15
_FIRST_LINE = 1 << 20
"""Most characters of a line from which the format of a file is recognized."""

TextRow = tuple[int, list[str]]
"""A line's number in its file, and its fields."""


class DataFileError(UsageError):
    """A data file is missing, damaged or of the wrong form; the message names file and place."""

    def __init__(self, path: Path | str, what: str, *, where: str = "") -> None:
        self.path, self.what, self.where = str(path), what, where
        super().__init__(f"{path}{f', {where}' if where else ''}: {what}")

    def __reduce__(self) -> tuple[object, ...]:
        return partial(DataFileError, where=self.where), (self.path, self.what)


def _wrong_value(path: Path, place: str, column: str, what: str) -> DataFileError:
    return DataFileError(path, what, where=f"{place}, column '{column}'")


# Words and numbers


def finite_number(word: str) -> float | None:
    """Parse a word as a finite number; None if it is not.

    Python's ``1_000`` and digits of other scripts are not accepted.

    >>> finite_number(" 1e3"), finite_number("1_000"), finite_number("٣"), finite_number("nan")
    (1000.0, None, None, None)
    """
    word = word.strip()
    if not _plain_digits(word):
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def is_missing(word: str) -> bool:
    """Return whether a field says that there is no value.

    >>> [is_missing(word) for word in ("", " NA ", "nan", "null", "0", "no")]
    [True, True, True, True, False, False]
    """
    return word.strip().lower() in _MISSING


def _plain_digits(text: str) -> bool:
    """Return whether a text has none of the forms that `float` accepts beyond plain digits."""
    return "_" not in text and text.isascii()


def column_index(path: Path, header: Sequence[str], name: str) -> int:
    """Return the index of a column; a DataFileError lists the known ones."""
    return column_indices(path, header, [name])[name]


def column_indices(path: Path, header: Sequence[str], names: Iterable[str]) -> dict[str, int]:
    """Return the index of each column; a DataFileError lists the known ones."""
    # Not list.index: with as many names as columns the time would be quadratic.
    at = {name: k for k, name in enumerate(header)}
    for name in (names := list(names)):
        if name not in at:
            shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
            what = f"has no column '{name}'{did_you_mean(name, header)} (it has: {shown})"
            raise DataFileError(path, what)
    return {name: at[name] for name in names}


# A table in memory


class StringColumn:
    """A column of words: codes, and the words in the order of first appearance.

    Parameters
    ----------
    words : the first rows.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._code: dict[str, int] = {}
        self._chunks: list[IntArray] = []
        self.extend(words)

    def extend(self, words: Iterable[str]) -> None:
        """Append rows."""
        code = self._code
        self._chunks.append(
            np.fromiter((code.setdefault(word, len(code)) for word in words), dtype=np.int64)
        )

    def extend_coded(self, codes: IntArray, words: Iterable[str]) -> None:
        """Append rows that are indices of a list of distinct words."""
        code = self._code
        known = np.array([code.setdefault(word, len(code)) for word in words], dtype=np.int64)
        self._chunks.append(known[codes])

    @property
    def words(self) -> list[str]:
        """Return the distinct words."""
        return list(self._code)

    @property
    def codes(self) -> IntArray:
        """Return the index of each row's word: (n,)."""
        return np.concatenate(self._chunks)

    def select(self, rows: IntArray) -> StringColumn:
        """Return some of the rows; words that are in none of them are forgotten."""
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        words, selected = self.words, StringColumn()
        selected.extend_coded(codes.reshape(-1), [words[k] for k in present])
        return selected


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, of a file or of arrays.

    Parameters
    ----------
    path : the file, or what else the columns come from.
    place : returns the name of a row in messages, given its index from 0.
    number_columns : columns of numbers by name, NaN where missing.
    word_columns : columns of words by name, empty where missing.
    """

    path: Path
    place: Callable[[int], str]
    number_columns: dict[str, FloatArray]
    word_columns: dict[str, StringColumn]

    @classmethod
    def from_arrays(cls, path: Path, columns: Mapping[str, npt.NDArray[Any]]) -> Table:
        """Make a table of arrays: objects are words, all others are numbers."""
        table = cls(path, lambda row: f"row {row + 1:,}", {}, {})
        for name, values in columns.items():
            if values.dtype == object:
                table.word_columns[name] = StringColumn(values.tolist())
            else:
                table.number_columns[name] = values.astype(np.float64)
        return table

    @property
    def n(self) -> int:
        """Number of rows."""
        for column in self.number_columns.values():
            return len(column)
        return len(next(iter(self.word_columns.values())).codes)

    @property
    def names(self) -> list[str]:
        """The names of the columns, numbers first."""
        return [*self.number_columns, *self.word_columns]

    def missing(self, name: str) -> npt.NDArray[np.bool_]:
        """Return whether each row lacks a value: (n,)."""
        if (values := self._numbers_of(name)) is not None:
            return np.isnan(values)
        words = self.word_columns[name]
        return np.array([word == "" for word in words.words], dtype=bool)[words.codes]

    def is_numeric(self, name: str) -> bool:
        """Return whether every value that is not missing is a finite number."""
        if (values := self._numbers_of(name)) is not None:
            return not np.isinf(values).any()
        return _all_numbers(self.word_columns[name].words)

    def number(self, name: str, *, low: float = -np.inf, high: float = np.inf) -> FloatArray:
        """Return a column of finite numbers, NaN where missing: (n,).

        Parameters
        ----------
        name : of the column; words are converted.
        low, high : inclusive bounds.

        Raises
        ------
        DataFileError : a value is not a number or out of bounds; the message names its place.
        """
        values = self._numbers_of(name)
        if values is not None:
            if np.isinf(values).any():
                row = int(np.argmax(np.isinf(values)))
                self.raise_error(row, name, f"{values[row]} is not a finite number")
        else:
            words = self.word_columns[name]
            distinct = [np.nan if word == "" else finite_number(word) for word in words.words]
            wrong = np.array([value is None for value in distinct], dtype=bool)[words.codes]
            if wrong.any():
                row = int(np.argmax(wrong))
                word = words.words[words.codes[row]]
                self.raise_error(row, name, f"{word[:40]!r} is not a finite number")
            values = np.array(distinct, dtype=np.float64)[words.codes]
        outside = (values < low) | (values > high)
        if outside.any():
            row = int(np.argmax(outside))
            self.raise_error(row, name, f"{values[row]:g} is not within {low} to {high}")
        return values

    def words(self, name: str) -> tuple[IntArray, list[str]]:
        """Return codes (n,) and sorted words of a column.

        Numbers sort as numbers, and a missing value is the empty word, before all others.
        """
        column = self.word_columns.get(name)
        if column is None:
            distinct, rows = np.unique(self.number(name) + 0.0, return_inverse=True)
            column = StringColumn()
            column.extend_coded(rows, ["" if np.isnan(one) else f"{one:.12g}" for one in distinct])
        words = column.words
        numeric = _all_numbers(words)
        keys = [(word != "", (numeric and finite_number(word)) or 0.0, word) for word in words]
        order = sorted(range(len(words)), key=keys.__getitem__)
        rank = np.argsort(order)
        return rank[column.codes], [words[k] for k in order]

    def as_numbers(self, name: str) -> FloatArray | None:
        """Convert a column of words to numbers (n,); None if a word is not a finite number."""
        if not self.is_numeric(name) or self.missing(name).any():
            return None
        return self.number(name)

    def select(self, rows: IntArray) -> Table:
        """Return some of the rows, which keep their names in messages."""
        return Table(
            self.path,
            lambda row: self.place(int(rows[row])),
            {name: values[rows] for name, values in self.number_columns.items()},
            {name: column.select(rows) for name, column in self.word_columns.items()},
        )

    def with_columns(
        self,
        numbers: Mapping[str, FloatArray],
        words: Mapping[str, StringColumn] | None = None,
    ) -> Table:
        """Return the table with further columns of as many rows.

        A column may have both forms: `number` reads its numbers, `words` its words.
        """
        words = self.word_columns | {**(words or {})}
        return Table(self.path, self.place, self.number_columns | {**numbers}, words)

    def raise_error(self, row: int, column: str, what: str) -> None:
        """Raise a DataFileError that names row and column."""
        raise _wrong_value(self.path, self.place(row), column, what)

    def _numbers_of(self, name: str) -> FloatArray | None:
        """Return a column of numbers, None for one of words; an unknown name is an error."""
        if name not in self.number_columns and name not in self.word_columns:
            column_index(self.path, self.names, name)
        return self.number_columns.get(name)


def _all_numbers(words: Iterable[str]) -> bool:
    return all(word == "" or finite_number(word) is not None for word in words)


# Reading files


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
        commas, semicolons, tabs or bars, also compressed as ``.gz``.
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
        return _read_parquet(path, numbers, words, optional)
    # Closed explicitly: a generator that waits for garbage collection keeps its file open.
    with contextlib.closing(read_rows(path)) as rows:
        lines = rows if header else _with_numbered_columns(path, rows)
        return _read_lines(path, lines, numbers, words, optional)


def has_header(path: Path) -> bool:
    """Return whether the first line of a text table is a header.

    It is in an attribute-relation file, and where none of its words is a number or appears in the
    same column of the next thousand rows.
    """
    with contextlib.closing(read_rows(path)) as rows:
        first, *others = (
            [field.strip() for field in fields] for _, fields in itertools.islice(rows, 1001)
        )
    with _opened(path, "rt", encoding="utf-8-sig") as stream:
        if _is_arff(stream.readline(_FIRST_LINE)):
            return True
    again = any(word == field for row in others for word, field in zip(first, row, strict=False))
    return not again and all(finite_number(word) is None for word in first)


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
        with _opened(path, "rt", encoding=encoding, newline="") as stream:
            first = stream.readline(_FIRST_LINE)
            stream.seek(0)
            if not first.strip():
                stream_is_empty = not stream.read(_FIRST_LINE).strip()
                what = "is empty" if stream_is_empty else "starts with a blank line, not a header"
                raise DataFileError(path, what)
            if _is_arff(first):
                yield from _arff_rows(path, stream)
                return
            if delimiter is None:
                delimiter = max((",", ";", "\t", "|"), key=first.count)
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            for fields in reader:
                number = reader.line_num
                if fields:
                    yield number, fields
    except UnicodeDecodeError as exc:
        raise _wrongly_encoded(path, encoding) from exc
    except csv.Error as exc:
        raise DataFileError(path, f"{exc}", where=f"line {number + 1:,}") from exc
    except (OSError, EOFError, zlib.error) as exc:
        raise DataFileError(path, f"cannot be read: {getattr(exc, 'strerror', 0) or exc}") from exc


def _opened(path: Path, mode: str, **how: Any) -> Any:
    """Open a file, or what a gzip file holds."""
    return (gzip.open if path.suffix == ".gz" else open)(path, mode, **how)


def _wrongly_encoded(path: Path, encoding: str) -> DataFileError:
    """Locate the wrongly encoded line, which buffered decoding does not report."""
    with _opened(path, "rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as exc:
                if line.startswith(b"ARROW1"):
                    return DataFileError(path, "is in Arrow's format; save it as Parquet or CSV")
                shown = "UTF-8" if encoding == "utf-8-sig" else encoding
                what = f"byte {line[exc.start]:#04x} at column {exc.start + 1} is not {shown}"
                return DataFileError(path, f"{what}; save it as {shown}", where=f"line {number:,}")
    return DataFileError(path, f"is not {encoding}")


def _with_numbered_columns(path: Path, rows: Iterator[TextRow]) -> Iterator[TextRow]:
    """Yield a header of column numbers, then the rows; a missing value is an error."""
    line, fields = next(rows)
    names = [str(k + 1) for k in range(len(fields))]
    yield line, names
    for at, row in itertools.chain([(line, fields)], rows):
        _require_arff_values(path, at, names, row)
        yield at, row


def _require_arff_values(path: Path, line: int, names: list[str], fields: list[str]) -> None:
    for name, field in zip(names, fields, strict=False):
        if field.strip() in _MISSING_IN_ARFF:
            raise _wrong_value(path, f"line {line:,}", name, "the value is missing")


def _read_lines(
    path: Path,
    rows: Iterator[TextRow],
    numbers: Sequence[str],
    words: Sequence[str] | None,
    optional: Collection[str],
) -> Table:
    _, header = next(rows)
    header = [name.strip() for name in header]
    for name, count in Counter(header).items():
        if count > 1:
            raise DataFileError(path, f"two columns are called '{name}'")
    words = _other_columns(header, numbers) if words is None else words
    at = column_indices(path, header, (*numbers, *words))
    chunks: dict[str, list[FloatArray]] = {name: [] for name in numbers}
    columns = {name: StringColumn() for name in words}
    lines: list[IntArray] = []
    while chunk := list(itertools.islice(rows, ROWS_AT_ONCE)):
        for line, fields in chunk:
            if len(fields) != len(header):
                what = f"{len(fields)} fields; the header names {len(header)} columns"
                raise DataFileError(path, what, where=f"line {line:,}")
        lines.append(np.array([line for line, _ in chunk], dtype=np.int64))
        for name in numbers:
            chunks[name].append(_parse_numbers(path, chunk, at[name], name, name in optional))
        for name in words:
            column = (fields[at[name]].strip() for _, fields in chunk)
            if name in optional:
                column = ("" if is_missing(word) else word for word in column)
            columns[name].extend(column)
    if not lines:
        raise DataFileError(path, "has a header but no rows")
    line_of = np.concatenate(lines)
    found = {name: np.concatenate(parts) for name, parts in chunks.items()}
    return Table(path, lambda row: f"line {int(line_of[row]):,}", found, columns)


def _other_columns(header: Iterable[str], numbers: Iterable[str]) -> list[str]:
    taken = set(numbers)
    return [name for name in header if name not in taken]


def _parse_numbers(
    path: Path, rows: Sequence[TextRow], at: int, name: str, optional: bool
) -> FloatArray:
    words = [fields[at] for _, fields in rows]
    with contextlib.suppress(ValueError):
        values = np.array(words, dtype=np.float64)
        if np.isfinite(values).all() and _plain_digits("".join(words)):
            return values
    # One by one: a value is missing or wrong, or there are digits that NumPy accepts and we don't.
    parsed = []
    for (line, _), word in zip(rows, words, strict=True):
        value = finite_number(word)
        if value is None:
            missing = is_missing(word)
            if not (missing and optional):
                wrong = f"{word[:40]!r} is not a finite number"
                what = "the value is missing" if missing else wrong
                raise _wrong_value(path, f"line {line:,}", name, what)
            value = np.nan
        parsed.append(value)
    return np.array(parsed)


# ARFF, Weka's attribute-relation files, and KEEL's dialect of them

_ATTRIBUTE = re.compile(r"@attribute\s+(?:'([^']*)'|\"([^\"]*)\"|([^\s{]+))", re.IGNORECASE)


def _is_arff(first_line: str) -> bool:
    """Return whether a first line is that of an ARFF file: ``@relation``, or a comment.

    >>> _is_arff("@RELATION iris"), _is_arff("a,b")
    (True, False)
    """
    return first_line.lstrip().lower().startswith(("@relation", "%"))


def _arff_rows(path: Path, stream: TextIO) -> Iterator[TextRow]:
    """Yield the attributes' names as a header, then the rows.

    Raises
    ------
    DataFileError : there is no ``@data``, a row is sparse, or a value is missing.
    """
    names: list[str] = []
    start = 0
    for number, line in enumerate(stream, start=1):
        start, text = number, line.strip()
        if text.lower() == "@data":
            break
        if match := _ATTRIBUTE.match(text):
            names.append(next(name for name in match.groups() if name is not None))
    else:
        raise DataFileError(path, "has no @data line", where=f"line {start:,}")
    yield start, names
    for at, line in enumerate(stream, start=start + 1):
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        if text.startswith("{"):
            raise DataFileError(path, "sparse rows are not supported", where=f"line {at:,}")
        quote = "'" if "'" in text else '"'
        fields = next(csv.reader([text], quotechar=quote, skipinitialspace=True))
        fields = [field.strip() for field in fields]
        _require_arff_values(path, at, names, fields)
        yield at, fields


# Parquet


def _read_parquet(
    path: Path, numbers: Sequence[str], words: Sequence[str] | None, optional: Collection[str]
) -> Table:
    import_all(["pyarrow.parquet"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            header = file.schema_arrow.names
            words = _other_columns(header, numbers) if words is None else words
            column_indices(path, header, (*numbers, *words))
            chunks: dict[str, list[FloatArray]] = {name: [] for name in numbers}
            columns = {name: StringColumn() for name in words}
            done = 0
            for batch in file.iter_batches(columns=list({*numbers, *words})):
                for name in {*numbers, *words} - {*optional}:
                    missing = np.asarray(batch.column(name).is_null())
                    if missing.any():
                        place = f"row {done + int(np.argmax(missing)) + 1:,}"
                        raise _wrong_value(path, place, name, "the value is missing")
                for name in numbers:
                    may_miss = name in optional
                    chunks[name].append(
                        parquet_floats(path, batch.column(name), name, done, may_miss)
                    )
                for name in words:
                    extend_words(columns[name], batch.column(name))
                done += batch.num_rows
    except (pa.ArrowInvalid, OSError) as exc:
        what = f"is not a parquet file, or damaged: {str(exc).splitlines()[0]}"
        raise DataFileError(path, what) from exc
    if done == 0:
        raise DataFileError(path, "has columns but no rows")
    found = {name: np.concatenate(parts) for name, parts in chunks.items()}
    return Table(path, lambda row: f"row {row + 1:,}", found, columns)


def extend_words(words: StringColumn, column: Any) -> None:
    """Append a column of words; each distinct value becomes text once, a missing one is empty."""
    import pyarrow as pa

    def text(value: object) -> str:
        # Whole floats as integers, since CSV files write them so.
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        return str(value)

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        words.extend("" if value is None else text(value) for value in column.to_pylist())
        return
    encoded = column.dictionary_encode()
    distinct = list(map(text, encoded.dictionary.to_pylist()))
    words.extend_coded(np.asarray(encoded.indices, dtype=np.int64), distinct)


def parquet_floats(path: Path, column: Any, name: str, done: int, optional: bool) -> FloatArray:
    """Return a column of numbers of an arrow table, whose first row is that many rows down: (n,).

    Raises
    ------
    DataFileError : a value is no finite number, or missing and not ``optional``.
    """
    import pyarrow as pa

    try:
        values = np.asarray(column.cast(pa.float64()), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        what = f"contains {column.type}, not numbers"
        raise _wrong_value(path, f"rows from {done + 1:,}", name, what) from exc
    fine = np.isfinite(values) | np.isnan(values) if optional else np.isfinite(values)
    if not fine.all():
        row = int(np.argmin(fine))
        what = f"{values[row]} is not a finite number"
        raise _wrong_value(path, f"row {done + row + 1:,}", name, what)
    return values
