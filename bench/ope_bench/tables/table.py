"""A table in memory: columns of numbers and of words; errors name row and column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.errors import did_you_mean
from ope_bench.tables.errors import DataFileError

__all__ = [
    "StringColumn",
    "Table",
    "column_index",
    "column_indices",
    "finite_number",
    "is_missing",
    "plain_digits",
]

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})


class StringColumn:
    """A column of words: codes, and the words in the order of first appearance."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._chunks: list[IntArray] = []

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
        return np.concatenate(self._chunks) if self._chunks else np.empty(0, dtype=np.int64)


class Table:
    """Columns of a file.

    Parameters
    ----------
    path : the file.
    place : returns the name of a row in messages, given its index from 0.
    numbers : columns of numbers.
    words : columns of words.
    """

    def __init__(
        self,
        path: Path,
        place: Callable[[int], str],
        numbers: dict[str, FloatArray],
        words: dict[str, StringColumn],
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
        """The names of the columns, numbers first."""
        return [*self._numbers, *self._words]

    def number(
        self, name: str, *, low: float | None = None, high: float | None = None
    ) -> FloatArray:
        """Return a column of numbers, checked against inclusive bounds: (n,)."""
        values = self._numbers[name]
        wrong = np.zeros(len(values), dtype=bool)
        if low is not None:
            wrong |= values < low
        if high is not None:
            wrong |= values > high
        if wrong.any():
            row = int(np.argmax(wrong))
            bounds = f"{'-inf' if low is None else low} to {'inf' if high is None else high}"
            self.raise_error(row, name, f"{values[row]:g} is not within {bounds}")
        return values

    def words(self, name: str) -> tuple[IntArray, list[str]]:
        """Return codes (n,) and sorted words of a column; numbers sort as numbers."""
        column = self._words[name]
        words = column.words
        order = sorted(range(len(words)), key=_sorting_key(words))
        rank = np.empty(len(words), dtype=np.int64)
        rank[order] = np.arange(len(words))
        return rank[column.codes], [words[k] for k in order]

    @property
    def number_columns(self) -> dict[str, FloatArray]:
        """The columns of numbers, by name."""
        return dict(self._numbers)

    @property
    def word_columns(self) -> dict[str, StringColumn]:
        """The columns of words, by name."""
        return dict(self._words)

    def with_columns(
        self, numbers: Mapping[str, FloatArray], words: Mapping[str, StringColumn]
    ) -> Table:
        """Return the table with further columns of as many rows."""
        return Table(self.path, self.place, self._numbers | {**numbers}, self._words | {**words})

    def as_numbers(self, name: str) -> FloatArray | None:
        """Convert a column of words to numbers (n,); None if a word is not a finite number."""
        column = self._words[name]
        values = [finite_number(word) for word in column.words]
        if any(value is None for value in values):
            return None
        numbers: FloatArray = np.array(values, dtype=np.float64)[column.codes]
        return numbers

    def raise_error(self, row: int, column: str, what: str) -> None:
        """Raise a DataFileError that names row and column."""
        raise DataFileError(self.path, what, where=f"{self.place(row)}, column '{column}'")


def _sorting_key(words: list[str]) -> Callable[[int], tuple[float, str]]:
    values = [finite_number(word) for word in words]
    if any(value is None for value in values):
        return lambda k: (0.0, words[k])
    return lambda k: (float(values[k] or 0.0), words[k])


def finite_number(word: str) -> float | None:
    """Parse a word as a finite number; None if it is not.

    Python's ``1_000`` and digits of other scripts are not accepted.

    >>> finite_number(" 1e3"), finite_number("1_000"), finite_number("٣"), finite_number("nan")
    (1000.0, None, None, None)
    """
    word = word.strip()
    if not plain_digits(word):
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


def plain_digits(text: str) -> bool:
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
