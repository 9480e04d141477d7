"""Columns of a table, from any of the formats that trials come in; errors name row and column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_bench import (
    DataFileError,
    FloatArray,
    IntArray,
    column_index,
    finite_number,
    read_table,
)

__all__ = ["Frame", "Values", "read_frame"]

Values = npt.NDArray[Any]
"""(n,): numbers, NaN where missing; or words, empty where missing."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns by name.

    Parameters
    ----------
    path : the file that they come from.
    columns : numbers (float64, NaN where missing) or words (objects, empty where missing).
    place : name of a row in messages, given its index from 0.
    """

    path: Path
    columns: Mapping[str, Values]
    place: Callable[[int], str]

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def missing(self, name: str) -> npt.NDArray[np.bool_]:
        """Return whether a row has no value: (n,)."""
        values = self._values(name)
        absent: npt.NDArray[np.bool_] = (
            values == "" if values.dtype == object else np.isnan(values)
        )
        return absent

    def is_numeric(self, name: str) -> bool:
        """Return whether every value that is there is a finite number."""
        values = self._values(name)
        if values.dtype != object:
            return not np.isinf(values).any()
        return all(word == "" or finite_number(word) is not None for word in set(values))

    def number(self, name: str) -> FloatArray:
        """Return a column of finite numbers, NaN where missing: (n,).

        Raises
        ------
        DataFileError : a value is not a number; the message names row and column.
        """
        values = self._values(name)
        if values.dtype == object:
            found = {word: finite_number(word) for word in set(values)}
            found[""] = np.nan
            row = next((k for k, word in enumerate(values) if found[word] is None), None)
            if row is not None:
                self.raise_error(row, name, f"{values[row][:40]!r} is not a finite number")
            return np.array([found[word] for word in values], dtype=np.float64)
        if np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            self.raise_error(row, name, f"{values[row]} is not a finite number")
        return values.astype(np.float64)

    def words(self, name: str) -> tuple[IntArray, tuple[str, ...]]:
        """Return codes (n,) and the sorted words; numbers sort as numbers, missing is empty."""
        values = self._values(name)
        if values.dtype != object:
            values = np.array(["" if np.isnan(v) else f"{v:.12g}" for v in values], dtype=object)
        numeric = all(word == "" or finite_number(word) is not None for word in set(values))
        order = sorted(set(values), key=_numeric_key if numeric else str)
        code = {word: k for k, word in enumerate(order)}
        return np.array([code[word] for word in values], dtype=np.int64), tuple(order)

    def select(self, rows: IntArray) -> Frame:
        """Return some of the rows, which keep their names in messages."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Frame(self.path, columns, lambda row: self.place(int(rows[row])))

    def with_column(self, name: str, values: Values) -> Frame:
        """Return the table with a further column."""
        return replace(self, columns={**self.columns, name: values})

    def raise_error(self, row: int, column: str, what: str) -> None:
        """Raise a DataFileError that names row and column."""
        where = f"{self.place(row)}, column '{column}'"
        raise DataFileError(self.path, what, where=where)

    def _values(self, name: str) -> Values:
        column_index(self.path, list(self.columns), name)
        return self.columns[name]


def _numeric_key(word: str) -> tuple[bool, float]:
    value = finite_number(word)
    return value is not None, 0.0 if value is None else value


def read_frame(path: Path, names: Iterable[str]) -> Frame:
    """Read the named columns of a CSV or parquet file as words.

    Raises
    ------
    UnavailableError : there is no such file, or a module is missing.
    DataFileError : the file is damaged, or a column is missing.
    """
    wanted = list(dict.fromkeys(names))
    table = read_table(path, words=wanted, optional=wanted)
    columns = {}
    for name in wanted:
        code, words = table.words(name)
        columns[name] = np.array(words, dtype=object)[code]
    return Frame(path, columns, table.place)
