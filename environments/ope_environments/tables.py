"""Tables from files: CSV and its relatives, ARFF, parquet; mistakes have a row and a column."""

from __future__ import annotations

import contextlib
import csv
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.errors import UnavailableError, did_you_mean
from ope_environments.arff import arff_rows, is_arff
from ope_environments.data_files import DataFileError

__all__ = ["Row", "Table", "Words", "read_rows", "read_table"]

Row = tuple[int, list[str]]
"""Number of a line in its file, and its fields."""

ROWS_AT_ONCE = 1 << 15
_DELIMITERS = (",", ";", "\t", "|")


class Words:
    """A column of words: a code a row, and the words in the order of their first appearance."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._chunks: list[IntArray] = []

    def extend(self, words: Iterable[str]) -> None:
        """Append rows."""
        code = self._code
        self._chunks.append(
            np.fromiter((code.setdefault(word, len(code)) for word in words), dtype=np.int64)
        )

    @property
    def words(self) -> list[str]:
        """The different words."""
        return list(self._code)

    @property
    def codes(self) -> IntArray:
        """(n,), index of each row's word."""
        return np.concatenate(self._chunks) if self._chunks else np.empty(0, dtype=np.int64)


class Table:
    """Columns of a file, read once.

    Parameters
    ----------
    path : the file.
    place : what a row is called in messages, given its index from 0.
    numbers : columns of numbers.
    words : columns of words.
    """

    def __init__(
        self,
        path: Path,
        place: Callable[[int], str],
        numbers: dict[str, FloatArray],
        words: dict[str, Words],
    ) -> None:
        self.path = path
        self.place = place
        self._numbers = numbers
        self._words = words

    @property
    def n(self) -> int:
        """Number of rows."""
        for column in self._numbers.values():
            return len(column)
        return len(next(iter(self._words.values())).codes)

    @property
    def names(self) -> list[str]:
        """The columns that were read, numbers first."""
        return [*self._numbers, *self._words]

    def number(
        self, name: str, *, low: float | None = None, high: float | None = None
    ) -> FloatArray:
        """A column of numbers within inclusive bounds: (n,)."""
        values = self._numbers[name]
        wrong = np.zeros(len(values), dtype=bool)
        if low is not None:
            wrong |= values < low
        if high is not None:
            wrong |= values > high
        if wrong.any():
            row = int(np.argmax(wrong))
            bounds = f"{'-inf' if low is None else low} to {'inf' if high is None else high}"
            self.fail(row, name, f"{values[row]:g} is not within {bounds}")
        return values

    def words(self, name: str) -> tuple[IntArray, list[str]]:
        """Codes (n,) and words of a column, the words sorted: as numbers where all are."""
        column = self._words[name]
        words = column.words
        order = sorted(range(len(words)), key=_sorting_key(words))
        rank = np.empty(len(words), dtype=np.int64)
        rank[order] = np.arange(len(words))
        return rank[column.codes], [words[k] for k in order]

    def as_numbers(self, name: str) -> FloatArray | None:
        """A column of words as numbers (n,), or None where one is no finite number."""
        column = self._words[name]
        values = [_number(word) for word in column.words]
        if any(value is None for value in values):
            return None
        numbers: FloatArray = np.array(values, dtype=np.float64)[column.codes]
        return numbers

    def fail(self, row: int, column: str, what: str) -> None:
        """Raise a DataFileError that names row and column."""
        raise DataFileError(self.path, what, where=f"{self.place(row)}, column '{column}'")


def _sorting_key(words: list[str]) -> Callable[[int], tuple[float, str]]:
    values = [_number(word) for word in words]
    if any(value is None for value in values):
        return lambda k: (0.0, words[k])
    return lambda k: (float(values[k] or 0.0), words[k])


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def read_table(
    path: Path, *, numbers: Sequence[str] = (), words: Sequence[str] | None = None
) -> Table:
    """Read the named columns of a file; what it is shows in its name and beginning.

    Parameters
    ----------
    path : ``.parquet``, ARFF (KEEL's dialect included), or text with a header, separated by
        commas, semicolons, tabs or bars.
    numbers : columns that must hold finite numbers.
    words : columns kept as words; all others where None.

    Raises
    ------
    UnavailableError : there is no such file, or a module is missing.
    DataFileError : it is empty, damaged or wrongly encoded, a column is missing, or a value is not
        a number; the message names line and column.
    """
    if not path.is_file():
        msg = f"{path}: no such file"
        raise UnavailableError(msg)
    if path.suffix == ".parquet":
        from ope_environments.parquet import read_parquet

        return read_parquet(path, numbers, words)
    # Closed here and now: a generator left to the garbage collector keeps its file open.
    with contextlib.closing(read_rows(path)) as rows:
        return _separated(path, rows, numbers, words)


def _separated(
    path: Path, rows: Iterator[Row], numbers: Sequence[str], words: Sequence[str] | None
) -> Table:
    _, header = next(rows)
    header = [name.strip() for name in header]
    for k, name in enumerate(header):
        if name in header[:k]:
            raise DataFileError(path, f"two columns are called '{name}'")
    if words is None:
        words = [name for name in header if name not in numbers]
    at = {name: column_index(path, header, name) for name in (*numbers, *words)}
    number_chunks: dict[str, list[FloatArray]] = {name: [] for name in numbers}
    word_columns = {name: Words() for name in words}
    lines: list[IntArray] = []
    while chunk := list(itertools.islice(rows, ROWS_AT_ONCE)):
        for line, fields in chunk:
            if len(fields) != len(header):
                what = f"{len(fields)} fields; the header names {len(header)} columns"
                raise DataFileError(path, what, where=f"line {line:,}")
        lines.append(np.array([line for line, _ in chunk], dtype=np.int64))
        for name in numbers:
            number_chunks[name].append(_parsed(path, chunk, at[name], name))
        for name in words:
            word_columns[name].extend(fields[at[name]].strip() for _, fields in chunk)
    if not lines:
        raise DataFileError(path, "has a header but no rows")
    line_of = np.concatenate(lines)
    columns = {name: np.concatenate(chunks) for name, chunks in number_chunks.items()}
    return Table(path, lambda row: f"line {int(line_of[row]):,}", columns, word_columns)


def column_index(path: Path, header: Sequence[str], name: str) -> int:
    """Where a column stands, or a DataFileError that says which there are."""
    if name not in header:
        shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
        what = f"has no column '{name}'{did_you_mean(name, header)} (it has: {shown})"
        raise DataFileError(path, what)
    return list(header).index(name)


def _parsed(path: Path, chunk: list[Row], at: int, name: str) -> FloatArray:
    try:
        values = np.array([fields[at] for _, fields in chunk], dtype=np.float64)
    except ValueError:
        values = None
    if values is None or not np.isfinite(values).all():
        for line, fields in chunk:
            if _number(fields[at]) is None:
                what = f"{fields[at][:40]!r} is not a finite number"
                raise DataFileError(path, what, where=f"line {line:,}, column '{name}'")
    assert values is not None  # noqa: S101  otherwise a word was found just above
    return values


def read_rows(
    path: Path, *, encoding: str = "utf-8-sig", delimiter: str | None = None
) -> Generator[Row, None, None]:
    """The lines of a text table that are not blank, the header first.

    Parameters
    ----------
    path : the file.
    encoding : of its text.
    delimiter : between fields; the most frequent one of the first line where None.
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
    """Decoding is buffered, so the line is looked for again."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as exc:
                shown = "UTF-8" if encoding == "utf-8-sig" else encoding
                what = f"byte {line[exc.start]:#04x} at column {exc.start + 1} is not {shown}"
                return DataFileError(path, f"{what}; save it as {shown}", where=f"line {number:,}")
    return DataFileError(path, f"is not {encoding}")
