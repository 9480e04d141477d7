"""A typed column, and what it gives to those who need numbers, names, times or vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.reader.library import library
from ope_bench.reader.mistakes import DataFileError
from ope_bench.reader.text import (
    EXACT,
    TextForm,
    as_names,
    has_comma,
    is_nearly_number,
    pointed,
    retyped,
    without_missing,
)
from ope_bench.reader.times import moments_of

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

Kind = Literal["integer", "float", "boolean", "text", "time", "list", "other"]

_AS_TEXTS = (
    "make texts or numbers of them (such as `.astype(str)` or `.dt.total_seconds()` of pandas)"
)

_YES = {"yes": 1.0, "y": 1.0, "true": 1.0, "no": 0.0, "n": 0.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : its name.
    series : its values, as a Polars series.
    path, place : of its table, for messages.
    form : how values are written.
    part : whether it is part of a column whose type is known.
    """

    name: str
    series: Any
    path: Path
    place: Callable[[int], str]
    form: TextForm
    part: bool = False

    @cached_property
    def kind(self) -> Kind:
        """The type of the values; texts that are numbers throughout are numbers."""
        return _kind(self._settled)

    @cached_property
    def _settled(self) -> Any:
        """The series, with texts as what they are if spelling does not matter."""
        if self.series.dtype == library().String and not self.part:
            return retyped(self.series, self.form)
        return self.series

    @cached_property
    def missing(self) -> BoolArray:
        """Whether each row lacks a value, as a number or truth value if it is that: (n,)."""
        return _flags(self._settled.is_null())

    @property
    def is_number(self) -> bool:
        """Whether every value that is not missing is a finite number or a truth value."""
        if self.kind == "float":
            return bool(self._settled.is_finite().fill_null(True).all())
        return self.kind in ("integer", "boolean")

    def error(self, row: int, what: str) -> NoReturn:
        """Raise a DataFileError that names the place of a row."""
        raise DataFileError(self.path, what, where=f"{self.place(row)}, column '{self.name}'")

    def shown(self, row: int) -> str:
        """Return a row's value as it is written, for messages."""
        value = self.series[row]
        if self.kind == "list" and value is not None and not isinstance(value, str):
            return str(list(value))[:40]
        return f"{value:.12g}" if isinstance(value, float) else str(value)[:40]

    def require_values(self) -> None:
        """Raise an error at the first missing value."""
        if self.missing.any():
            what = "the value is missing; fill it in, or leave the row out"
            self.error(int(np.argmax(self.missing)), what)

    def refuse_first(self, wrong: BoolArray, what: Callable[[str], str]) -> None:
        """Raise an error at the first wrong row, if there is one.

        Parameters
        ----------
        wrong : (n,)
        what : returns the message, given the value as it is written.
        """
        if wrong.any():
            row = int(np.argmax(wrong))
            self.error(row, what(self.shown(row)))

    # Numbers

    def odd(self) -> BoolArray:
        """Return whether each row has a value that is no finite number: (n,)."""
        pl = library()
        series = self._settled
        if self.kind in ("integer", "boolean"):
            return np.zeros(len(series), dtype=bool)
        if self.kind == "float":
            return _flags(~series.is_finite().fill_null(True))
        if series.dtype == pl.String:
            fine = (
                pointed(series, self.form)
                .cast(pl.Float64, strict=False)
                .is_finite()
                .fill_null(False)
            )
            return _flags(series.is_not_null() & ~fine)
        return _flags(series.is_not_null())

    def numbers(self, *, yes_no: bool = False, cure: str = "write a number") -> FloatArray:
        """Return finite numbers, NaN where missing: (n,).

        Parameters
        ----------
        yes_no : whether the words yes and no are truth values.
        cure : what to do about a value that is no number, for its message.

        Raises
        ------
        DataFileError : a value is no finite number; the message names its place.
        """
        pl = library()
        series = self._settled
        if series.dtype == pl.Boolean or series.dtype.is_numeric():
            values = _floats(series.cast(pl.Float64))
            self.refuse_first(
                np.isinf(values), lambda one: f"{one} is not a finite number; {cure}"
            )
            return values
        if series.dtype == pl.String:
            words = series.str.to_lowercase()
            if yes_no and words.is_in([*_YES]).fill_null(True).all():
                return _floats(words.replace_strict(_YES, return_dtype=pl.Float64))
        if not series.is_not_null().any():
            return np.full(len(series), np.nan)
        self.refuse_first(self.odd(), lambda one: self.no_number(one, cure))
        raise AssertionError

    def inexact(self) -> int | None:
        """Return the first row with an integer that is no float, None if there is none."""
        if self.kind != "integer":
            return None
        series = self._settled
        large = (series >= int(EXACT)) | (series <= -int(EXACT))
        return next((k for k in large.arg_true() if int(float(series[k])) != series[k]), None)

    def no_number(self, shown: str, cure: str) -> str:
        """Return why a value as it is written is no number, and what to do."""
        if self.kind == "time":
            return f"{shown!r} is a time, not a finite number; {cure}"
        if self.kind in ("list", "other"):
            return f"{self._holds}, not numbers; {cure if self.kind == 'list' else self._cure}"
        if not has_comma(shown) and is_nearly_number(shown, self.form.decimal):
            cure = f"leave out marks of thousands, percent signs and currencies; {cure}"
        elif has_comma(shown):
            cure = 'write a point for a decimal comma, or give `decimal: ","` (--decimal ,); '
            cure += "leave marks of thousands out"
        return f"{shown!r} is not a finite number; {cure}"

    @property
    def _holds(self) -> str:
        what = (
            "lists" if self.kind == "list" else f"other things ({type(self.series[0]).__name__})"
        )
        return f"holds {what}"

    @property
    def _cure(self) -> str:
        return "write a column for each key" if isinstance(self.series[0], dict) else _AS_TEXTS

    # Names

    def codes(self) -> tuple[IntArray, list[str]]:
        """Return the code of each row's name (n,), and the sorted names.

        The missing one is empty and comes first; numbers sort as numbers. One name has one
        spelling: 1.0 among integers is 1, a truth value is True or False, texts are in Unicode's
        composed form. A float that may be several integers is no name.
        """
        codes, names = self._coded
        self._require_exact()
        return codes, names.to_list()

    def groups(self) -> IntArray:
        """Return equal numbers for rows of equal names: (n,)."""
        self._require_exact()
        return self._coded[0]

    def _require_exact(self) -> None:
        if self.kind == "float":
            large = (self._settled.abs() >= EXACT).fill_null(False)
            what = "may be one of several integers, as names of floats of this size are"
            cure = "write it whole, or read it as integers (in pandas dtype 'Int64') or as text"
            self.refuse_first(_flags(large), lambda one: f"{one} {what}; {cure}")

    @property
    def levels(self) -> int:
        """The number of different names, that of a missing one included."""
        return len(self._coded[1])

    @cached_property
    def _coded(self) -> tuple[IntArray, Any]:
        pl = library()
        if self.kind in ("list", "other"):
            self.error(0, f"{self._holds}, not names; {self._cure}, or name another column")
        # What is missing among numbers is a word among texts.
        series = self.series
        if series.dtype == pl.String and not self.part:
            series = retyped(series, self.form, spelled=True)
        series = without_missing(as_names(series, part=self.part), self.form)
        ranks, distinct = _ranked(series)
        codes = _integers(ranks.fill_null(-1))
        if series.null_count():
            return codes + 1, pl.concat([pl.Series([""]), distinct])
        return codes, distinct

    # Times and vectors

    def times(self) -> tuple[IntArray, tuple[str, str]]:
        """Return ranks in the order of time (n,), and the first and last time as written.

        Raises
        ------
        DataFileError : a time is missing, or its form is not known for sure.
        """
        self.require_values()
        moments, pl = self._settled, library()
        if self.form.time_format and moments.dtype.is_numeric():
            # A year and a month without marks are digits.
            moments = self.series if self.series.dtype == pl.String else moments.cast(pl.Int64)
            moments = moments.cast(pl.String)
        if moments.dtype == pl.String or self.kind in ("list", "other"):
            moments = moments_of(moments, self.form, self.error)
        ranks = _integers(moments.rank("dense")) - 1
        first, last = (self.shown(int(one)) for one in (np.argmin(ranks), np.argmax(ranks)))
        return ranks, (first, last)

    def vectors(self) -> FloatArray:
        """Return lists of numbers of one length, also written as [1, 2] or {1, 2}: (n, d).

        Raises
        ------
        DataFileError : a value is missing, no list, of another length, or holds no numbers.
        """
        pl = library()
        self.require_values()
        series = self.series
        if series.dtype == pl.String:
            inner = _inside(series)
            self.refuse_first(
                _flags(inner.is_null()), lambda one: f"{one!r} is no list of numbers{_cure(one)}"
            )
            inner = inner.set(inner == "", None)
            mark = ","
            if self.form.decimal == ",":
                mark = ";"
                how = "write points for decimal commas in a list, or `;` between its numbers"
                several = inner.str.contains(",") & ~inner.str.contains(";")
                self.refuse_first(_flags(several.fill_null(False)), lambda one: f"{one!r}: {how}")
                inner = inner.str.replace_all(",", ".", literal=True)
            # NumPy writes blanks between numbers.
            apart = ~inner.str.contains(mark).fill_null(True)
            inner = inner.zip_with(~apart, inner.str.replace_all(r"\s+", mark))
            series = inner.str.split(mark).list.eval(pl.element().str.strip_chars())
        if not isinstance(series.dtype, pl.List | pl.Array):
            self.error(0, f"{self.shown(0)!r} is no list of numbers{_cure(self.shown(0))}")
        if isinstance(series.dtype, pl.Array):
            series = series.arr.to_list()
        if isinstance(series.dtype.inner, pl.List | pl.Array):
            what = "is a list of lists; give one list of numbers a row"
            self.error(0, f"{str(self.series[0].to_list())[:40]} {what}")
        width = series.list.len()
        nothing = "the list is empty; give numbers, or leave the column out"
        self.refuse_first(_flags(width.fill_null(0) == 0), lambda _: nothing)
        apart = _flags(width != width[0])
        self.refuse_first(
            apart,
            lambda _: f"{width[int(np.argmax(apart))]} numbers; {self.place(0)} has {width[0]}",
        )
        words = series.explode()
        flat = words.cast(pl.Float64, strict=False)
        values = _floats(flat).reshape(len(series), int(width[0]))
        if not words.dtype.is_float() and (np.abs(values) >= EXACT).any():
            exact = words.cast(pl.Int128, strict=False)
            lost = _flags((flat.cast(pl.Int128, strict=False) != exact).fill_null(False))
            what = "holds an integer of more digits than a float keeps; divide it"
            self.refuse_first(
                np.asarray(lost.reshape(values.shape).any(axis=1)), lambda one: f"{one} {what}"
            )
        self.refuse_first(
            np.asarray(~np.isfinite(values).all(axis=1)),
            lambda one: f"the list holds a value that is no number{_cure(one)}",
        )
        return values

    @property
    def holds_vectors(self) -> bool:
        """Whether the values are lists, or most of the texts are, written as `vectors` reads."""
        if self.kind != "text":
            return self.kind == "list"
        inner = _inside(self.series.drop_nulls().unique())
        return bool(inner.null_count() < len(inner) / 2)


_LIST = r"(?s)^(?:(?:np\.)?array\()?(?:\[(.*)\]|\((.*)\)|\{(.*)\})(?:, dtype=\w+)?\)?$"
_NUMBERS = r"^[-+0-9.,;\seE]*$"


def _inside(texts: Any) -> Any:
    """Return what stands in the brackets of lists of numbers, null where a text is none.

    Python and NumPy write them as [1, 2], (1, 2), [1. 2.], [np.float64(1.0)] or array([1., 2.]).
    """
    pl = library()
    plain = texts.str.strip_chars().str.replace_all(r"np\.\w+\(([^()]*)\)", "$1")
    parts = plain.str.extract_groups(_LIST).struct.unnest()
    inner = parts.select(pl.coalesce(pl.all())).to_series().str.strip_chars()
    return inner.set(~inner.str.contains(_NUMBERS).fill_null(True), None)


def _cure(shown: str) -> str:
    """Return what to do about a text that may be meant as a list."""
    if ":" in shown:
        return "; write a column for each key, or the list of its values"
    if "..." in shown:
        return "; NumPy has left numbers out, write the list of all (`.tolist()`)"
    return "; write [1, 2] in every row, or list the column in `categorical`"


def _ranked(series: Any) -> tuple[Any, Any]:
    """Return the rank of each name of a series, null where missing, and the sorted names."""
    pl = library()
    if series.dtype == pl.Int64 and not series.null_count() and len(series):
        values = series.to_numpy()
        low, span = int(values.min()), int(values.max()) - int(values.min())
        if span <= 4 * len(series):
            # A table of the numbers in between is faster than to sort them.
            there = np.zeros(span + 1, dtype=bool)
            there[values - low] = True
            ranks = (np.cumsum(there) - 1)[values - low]
            return pl.Series(ranks), pl.Series(np.flatnonzero(there) + low).cast(pl.String)
    if series.dtype != pl.String:
        distinct = series.unique().drop_nulls().sort()
        ranks = series.rank("dense").cast(pl.Int64) - 1
        return ranks, distinct.cast(pl.String)
    distinct = pl.DataFrame({"name": series.unique().drop_nulls()})
    numbers = distinct["name"].cast(pl.Float64, strict=False)
    order = ["value", "name"] if numbers.is_finite().fill_null(False).all() else ["name"]
    distinct = distinct.with_columns(value=numbers).sort(order)["name"]
    if not len(distinct):
        return pl.Series([None] * len(series), dtype=pl.Int64), distinct
    place = pl.Series(np.arange(len(distinct)))
    return series.replace_strict(distinct, place, default=None, return_dtype=pl.Int64), distinct


def _flags(series: Any) -> BoolArray:
    return np.ascontiguousarray(series.to_numpy(), dtype=np.bool_)


def _floats(series: Any) -> FloatArray:
    """Return a series as floats, NaN where null."""
    return np.ascontiguousarray(series.to_numpy(), dtype=np.float64)


def _integers(series: Any) -> IntArray:
    return np.ascontiguousarray(series.to_numpy(), dtype=np.int64)


def _kind(series: Any) -> Kind:
    pl = library()
    dtype = series.dtype
    if dtype.is_integer():
        return "integer"
    if dtype.is_float():
        return "float"
    if isinstance(dtype, pl.List | pl.Array) and (
        dtype.inner.is_numeric() or dtype.inner == pl.Null
    ):
        return "list"
    found: dict[Any, Kind] = {
        pl.Boolean: "boolean",
        pl.String: "text",
        pl.Null: "text",
        pl.Datetime: "time",
    }
    return found.get(dtype.base_type(), "other")
