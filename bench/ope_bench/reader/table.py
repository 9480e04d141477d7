"""A table of typed columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.reader.column import BoolArray, Column
from ope_bench.reader.library import library
from ope_bench.reader.mistakes import DataFileError, column_indices
from ope_bench.reader.text import EXACT, TextForm, settle, without_missing


@dataclass(frozen=True, eq=False)
class Table:
    """Typed columns by name, of a file or of a frame.

    Parameters
    ----------
    path : the file, or what else the columns come from.
    place : returns the name of a row in messages, given its index from 0.
    frame : the columns, as a Polars data frame.
    form : how values are written.
    index : of the rows, where they are of pandas.
    texts : columns of texts as they stand, with their blanks.
    lack : returns what a column has where a text is missing; NaN where None.
    untyped : whether texts may be numbers, as in a text file.
    parts : columns of which these are some rows, of types that are known of all rows.
    """

    path: Path
    place: Callable[[int], str]
    frame: Any
    form: TextForm = field(default_factory=TextForm)
    index: Any = None
    texts: Mapping[str, Any] = field(default_factory=dict)
    lack: Callable[[str], Any] | None = None
    untyped: bool = False
    parts: frozenset[str] = frozenset()

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.frame.height)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the file."""
        return list(self.frame.columns)

    def column(self, name: str) -> Column:
        """Return a column.

        Raises
        ------
        DataFileError : there is none of that name; the message lists the known ones.
        """
        # Kept, since what a column gives is worked out once.
        if name not in self._kept:
            column_indices(self.path, self.names, [name])
            series = self.frame.get_column(name)
            known = name in self.parts
            self._kept[name] = Column(name, series, self.path, self.place, self.form, known)
        return self._kept[name]

    @cached_property
    def _kept(self) -> dict[str, Column]:
        return {}

    def numbers(
        self,
        name: str,
        *,
        optional: bool = False,
        low: float = -np.inf,
        high: float = np.inf,
        yes_no: bool = False,
        cure: str = "write a number",
    ) -> FloatArray:
        """Return a column of finite numbers, NaN where missing: (n,); see `Column.numbers`.

        Parameters
        ----------
        name : of the column.
        optional : whether a value may be missing.
        low, high : inclusive bounds.
        yes_no, cure : as for `Column.numbers`.

        Raises
        ------
        DataFileError : a value is missing, not a number or out of bounds.
        """
        column = self.column(name)
        if not optional:
            column.require_values()
        values = column.numbers(yes_no=yes_no, cure=cure)
        column.refuse_first(
            (values < low) | (values > high), lambda one: f"{one} is not within {low} to {high}"
        )
        return values

    def codes(self, name: str, *, optional: bool = False) -> tuple[IntArray, list[str]]:
        """Return codes (n,) and sorted names of a column; see `Column.codes`."""
        column = self.column(name)
        if not optional:
            column.require_values()
        return column.codes()

    def missing(self, name: str) -> BoolArray:
        """Return whether each row lacks a value: (n,)."""
        return self.column(name).missing

    def select(self, rows: IntArray) -> Table:
        """Return some of the rows, which keep their names in messages."""
        return replace(
            self,
            frame=self.frame[rows],
            texts={name: one[rows] for name, one in self.texts.items()},
            place=lambda row: self.place(int(rows[row])),
        )

    def as_it_stands(self, name: str) -> Any:
        """Return a column's values as the file or frame has them: (n,).

        Integers with missing values are floats; a missing text is what the frame has there, NaN of
        a file. Texts of a text file are numbers if all are, unless one begins with a zero more.
        """
        pl = library()
        series, texts = self.column(name).series, self.texts.get(name)
        if self.untyped and series.dtype == pl.String:
            series = without_missing(texts, self.form)
            found = settle(texts, self.form)
            zeros = series.str.contains(r"^\s*[-+]?0[0-9]|[eE]").any()
            series = series if zeros or found.dtype == pl.String else found
        elif texts is not None and not self.untyped:
            series = texts.set(texts.is_in(self.form.missing), None)
        if series.dtype.is_float() or series.dtype == pl.Datetime:
            return np.asarray(series.to_numpy())
        if not series.null_count() and series.dtype != pl.Int128:
            return np.array(series.to_list()) if series.dtype == pl.String else series.to_numpy()
        if series.dtype.is_integer() and (series.abs().max() or 0) < EXACT:
            return np.asarray(series.cast(pl.Float64).to_numpy())
        lack = np.nan if self.lack is None else self.lack(name)
        return np.array([lack if one is None else one for one in series.to_list()], dtype=object)

    def with_columns(self, columns: Mapping[str, Any]) -> Table:
        """Return the table with further or other columns.

        Parameters
        ----------
        columns : arrays or lists of as many rows; NaN is a missing number, None a missing name.
        """
        added = [library().Series(name, values) for name, values in columns.items()]
        kept = [
            settle(one, self.form, spelled=True)
            if one.dtype == library().String
            else without_missing(one, self.form)
            for one in added
        ]
        return replace(self, frame=self.frame.with_columns(kept))

    def raise_error(self, row: int, column: str, what: str) -> None:
        """Raise a DataFileError that names row and column."""
        raise DataFileError(self.path, what, where=f"{self.place(row)}, column '{column}'")

    def refuse_duplicates(self, names: Sequence[str]) -> None:
        """Raise an error at the second of two rows that are equal in some columns."""
        twice = ~self.frame.select(names).to_struct().is_first_distinct()
        if twice.any():
            row = int(twice.arg_true()[0])
            what = f"{', '.join(names)}: is there twice; keep one"
            raise DataFileError(self.path, what, where=self.place(row))
