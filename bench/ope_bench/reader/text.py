"""Texts as values: what is missing, a number, a truth value, a name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.reader.library import library

MISSING_WORDS = ("na", "n/a", "nan", "null", "none", "<na>")
"""Words that say, among numbers, times and truth values, that there is none."""

_LARGE = 1e38
"""Floats below it are integers of 128 bits, if they are whole."""

FIRST_ROWS = 1000
"""Rows from which the type of a column is guessed before all of them are looked at."""

EXACT = 2.0**53
"""Integers from here on are not all floats."""

_INTEGER = r"^-?(0|[1-9][0-9]*)(\.0+)?$"
"""A text that is a number where names are asked for."""

_COMMA = r"\s*[-+]?[0-9.,]*,[0-9.,]*[0-9]\s*"


@dataclass(frozen=True)
class TextForm:
    """How values are written.

    Parameters
    ----------
    missing : words for a missing value, beside an empty cell.
    encoding : of text files; UTF-8 where None, or what their byte order mark says.
    delimiter : of fields; the most frequent one of the first line where None.
    decimal : the mark before the decimals of a number.
    time_format : of times, in the notation of `datetime.strptime`; recognized where None.
    """

    missing: tuple[str, ...] = ()
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    time_format: str | None = None

    def __post_init__(self) -> None:
        kinds = {"encoding": self.encoding, "time_format": self.time_format}
        for name, value in kinds.items():
            if not isinstance(value, str | None):
                msg = f"{name}: {value!r} is no text; write it in quotes"
                raise UsageError(msg)
        if not all(isinstance(word, str) for word in self.missing):
            msg = f"missing: {list(self.missing)} holds other things than words; write texts"
            raise UsageError(msg)
        if self.delimiter and (
            not isinstance(self.delimiter, str)
            or len(self.delimiter) != 1
            or self.delimiter in '"\r\n'
        ):
            msg = f"delimiter: {self.delimiter!r} is no mark between fields; write one, such as ;"
            raise UsageError(msg)
        if self.decimal not in (".", ","):
            msg = f"decimal: {self.decimal!r} is no mark before decimals; write . or ,"
            raise UsageError(msg)


def finite_number(word: str) -> float | None:
    """Parse a word as a finite number; None if it is not.

    Python's ``1_000`` and digits of other scripts are not accepted.

    >>> finite_number(" 1e3"), finite_number("1_000"), finite_number("٣"), finite_number("nan")
    (1000.0, None, None, None)
    """
    word = word.strip()
    if "_" in word or not word.isascii():
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def has_comma(word: str) -> bool:
    """Return whether a word is a number but for commas and points.

    >>> [has_comma(one) for one in ("0,5", "-1.234,5", "1,234", "1.5", "a,5", ",")]
    [True, True, True, False, False, False]
    """
    return re.fullmatch(_COMMA, word) is not None


def is_nearly_number(word: str, decimal: str) -> bool:
    """Return whether a word is a number but for marks of thousands, a percent sign or a currency.

    >>> [is_nearly_number(one, ".") for one in ("1 000", "12%", "5 €", "1'000.5", "1.2.3", "a 5")]
    [True, True, True, True, False, False]
    """
    thousands = r"\d{1,3}(?:[\s',%s]\d{3})+" % ("." if decimal == "," else "")
    money = "[€$£¥]?"
    return (
        re.fullmatch(rf"{money}\s*[-+]?(?:{thousands}|\d+)(?:[.,]\d+)?\s*(?:%|{money})", word)
        is not None
    )


def pointed(texts: Any, form: TextForm) -> Any:
    """Return texts with a decimal point; one that has marks of thousands becomes no number."""
    if form.decimal == ".":
        return texts
    marked = texts.str.contains(".", literal=True).fill_null(False)
    return texts.str.replace(",", ".", literal=True).set(marked, ".")


def half_character(value: Any) -> str:
    """Return what is wrong with a text that ends or begins within a character; empty if nothing.

    >>> bool(half_character(chr(0xD83D))), half_character("x")
    (True, '')
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{value[:40]!r} holds half of a character (a lone surrogate); correct it"
    return ""


def settle(texts: Any, form: TextForm, *, spelled: bool = False) -> Any:
    """Return a series of texts as integers, floats or truth values if all are, else as texts.

    Texts lose the blanks around them; empty ones become null.

    Parameters
    ----------
    texts : a series of strings.
    form : how values are written.
    spelled : whether the spelling of numbers matters, as where they are names: then only integers
        are converted whose spelling follows from their value.
    """
    stripped = texts.str.strip_chars()
    # The same texts are in memory once.
    stripped = texts if (stripped == texts).all() else stripped
    return retyped(without_missing(stripped, form), form, spelled=spelled)


def retyped(texts: Any, form: TextForm, *, spelled: bool = False) -> Any:
    """Return a part of the texts that `settle` returned in the same way."""
    pl = library()
    if not texts.is_not_null().any() or _begin_with_words(texts, form):
        return texts
    numbers = pointed(texts, form)
    # NumPy's infinities and Python's underscores are no numbers here.
    floats = numbers.cast(pl.Float64, strict=False)
    fine = floats.is_finite().fill_null(False)
    rest = texts.filter(texts.is_not_null() & ~fine).unique()
    words = rest.str.to_lowercase()
    if fine.any() and words.is_in(list(MISSING_WORDS)).all():
        valued = fine.sum()
        integers = numbers.cast(pl.Int128, strict=False)
        plain = (integers.cast(pl.String) == numbers).sum() == valued
        if plain or (integers.is_not_null().sum() == valued and not spelled):
            return without_missing(narrow(integers), form)
        if not spelled:
            return without_missing(floats.set(~fine, None), form)
        return texts
    flags = words.filter(~words.is_in(list(MISSING_WORDS)))
    if not fine.any() and len(flags) and flags.is_in(["true", "false"]).all():
        low = texts.str.to_lowercase()
        return pl.Series(texts.name, (low == "true").set(~low.is_in(["true", "false"]), None))
    return texts


def _begin_with_words(texts: Any, form: TextForm) -> bool:
    """Return whether one of the first texts is neither a number nor a word for another type."""
    first = pointed(texts.head(FIRST_ROWS).drop_nulls(), form)
    odd = first.filter(first.cast(library().Float64, strict=False).is_null())
    return not odd.str.to_lowercase().is_in([*MISSING_WORDS, "true", "false"]).all()


def as_kind(texts: Any, form: TextForm, kind: Any) -> Any:
    """Return some texts of a column as what all of them are, a type that `settle` gives."""
    pl = library()
    texts = without_missing(texts.str.strip_chars(), form)
    if kind == pl.String:
        return texts
    if kind == pl.Boolean:
        low = texts.str.to_lowercase()
        return (low == "true").set(~low.is_in(["true", "false"]), None)
    numbers = pointed(texts, form)
    if kind.is_integer():
        numbers = numbers.str.replace(r"\.0+$", "")
    numbers = numbers.cast(kind, strict=False)
    return without_missing(numbers.set(numbers.is_infinite(), None), form)


def without_missing(values: Any, form: TextForm) -> Any:
    """Return a series with null where it is empty or one of the words for missing."""
    pl = library()
    if values.dtype == pl.String:
        return values.set(values.is_in(["", *form.missing]), None)
    if values.dtype.is_float():
        values = values.set(values.is_nan().fill_null(False), None)
    numbers = [found for word in form.missing if (found := finite_number(word)) is not None]
    if numbers and values.dtype.is_numeric():
        return values.set(values.cast(pl.Float64).is_in(numbers), None)
    return values


def narrow(integers: Any) -> Any:
    """Return a series of integers in 64 bits if they are that small."""
    pl = library()
    low, high = integers.min(), integers.max()
    small = low is None or (low >= -(2**63) and high < 2**63)
    return integers.cast(pl.Int64 if small else pl.Int128)


def as_names(series: Any, *, part: bool = False) -> Any:
    """Return a series of names: integers, or texts with one spelling for one name.

    Parameters
    ----------
    series : of a settled type.
    part : whether it is part of a column: its texts are no numbers, and its floats fractions.

    >>> import polars as pl
    >>> [as_names(pl.Series(one)).to_list() for one in (["1.0", "2"], ["007", "7"], ["1.0", "a"])]
    [[1, 2], ['007', '7'], ['1.0', 'a']]
    >>> as_names(pl.Series([1.0, 0.5])).to_list()
    ['1.0', '0.5']
    """
    pl = library()
    if series.dtype == pl.Boolean:
        return series.replace_strict({True: "True", False: "False"}, return_dtype=pl.String)
    if series.dtype == pl.Datetime:
        return series.dt.to_string("%Y-%m-%dT%H:%M:%S%.f")
    if series.dtype.is_float():
        finite = series.drop_nulls().filter(series.drop_nulls().is_finite())
        if not part and (finite == finite.floor()).all() and (finite.abs() < _LARGE).all():
            return series.cast(pl.Int128, strict=False)
        distinct = series.unique().drop_nulls()
        words = pl.Series([repr(one) for one in distinct.to_list()], dtype=pl.String)
        return series.replace_strict(distinct, words, default=None, return_dtype=pl.String)
    if series.dtype != pl.String:
        return series
    distinct = series.unique().drop_nulls()
    valued = distinct.filter(~distinct.str.to_lowercase().is_in(list(MISSING_WORDS)))
    if not part and len(valued) and valued.str.contains(_INTEGER).all():
        found = series.str.replace(r"\.0+$", "").cast(pl.Int128, strict=False)
        if series.filter(found.is_null()).str.contains(_INTEGER).any():
            return series  # beyond 128 bits
        return found
    if valued.str.contains(r"[^\x00-\x7f]").any():
        return series.str.normalize("NFC")
    return series


def name_of(value: Any) -> str:
    """Return the name that a single value is, as in a column of such values.

    >>> name_of(1.0), name_of("1.0"), name_of(True), name_of("Cafe" + chr(0x301)) == "Caf\xe9"
    ('1', '1', 'True', True)
    """
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    word = str(value).strip()
    if re.fullmatch(_INTEGER, word):
        return str(int(word.partition(".")[0]))
    return unicodedata.normalize("NFC", word)


def spelled_as(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return names as known ones of equal numbers are spelled, if none is spelled alike.

    >>> spelled_as(["1", "1.5", "x", "02"], ["1.0", "1.5", "2.0"])
    ['1.0', '1.5', 'x', '02']
    """
    known = dict.fromkeys(known)
    same = {name_of(one): one for one in known}
    return [one if one in known else same.get(name_of(one), one) for one in names]


def sorted_names(names: Iterable[str]) -> list[str]:
    """Sort names; numbers sort as numbers, as those of a column do.

    >>> sorted_names(["10", "9"]), sorted_names(["10", "9", "x"])
    (['9', '10'], ['10', '9', 'x'])
    """
    values = {name: finite_number(name) for name in names}
    if any(value is None for value in values.values()):
        return sorted(values)
    return sorted(values, key=lambda name: (values[name], name))
