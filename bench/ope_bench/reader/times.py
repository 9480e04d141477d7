"""Moments from texts: forms that are known for sure over a whole column."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import numpy as np

from ope_bench.reader.library import library
from ope_bench.reader.text import TextForm

_FAST = (
    *("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"),
    *("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f%#z"),
)
"""Forms tried on the whole column before the parts of each text are looked at."""

_TICK = timedelta(microseconds=1)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"([A-Za-z]{3,9})\.?"
_DATES = {
    "year": r"(?<y>\d{4})(?:[-/.](?<m>\d{1,2})(?:[-/.](?<d>\d{1,2}))?)?",
    "order": r"(?<a>\d{1,2})[-/.](?<b>\d{1,2})[-/.](?<y>\d{4})",
    "month first": rf"(?<n>{_MONTH})[ -](?<d>\d{{1,2}})(?:st|nd|rd|th)?,?[ -](?<y>\d{{4}})",
    "day first": rf"(?<d>\d{{1,2}})(?:st|nd|rd|th)?[ -]?(?<n>{_MONTH})[ ,-]*(?<y>\d{{4}})",
    "week": r"(?<y>\d{4})-?W(?<w>\d{1,2})(?:-?(?<e>[1-7]))?",
    "quarter": r"(?<y>\d{4})[- ]?Q(?<q>[1-4])",
}
_DAY = r"^(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?"
_CLOCK = (
    r"(?:(?:T| +|, *)(?<h>\d{1,2})(?::(?<i>\d{2})(?::(?<s>\d{2}(?:[.,]\d+)?))?)?"
    r" ?(?<p>[ap]\.?m\.?)?)?"
)
_ZONE = r" ?(?<z>z|utc|gmt|[+-]\d{2}(?::?\d{2})?)?(?: \((?:utc|gmt)\))?$"
_COUNTER = r"^([^0-9]*)([0-9]+)([^0-9]*)$"


def moments_of(texts: Any, form: TextForm, error: Callable[[int, str], NoReturn]) -> Any:
    """Return a series that orders texts by the times that they name.

    Known are dates with a year of four digits, months by number or English name, times of day,
    zones, ISO weeks, quarters, and a counter with equal words around it ("week 9").

    Parameters
    ----------
    texts : a series of strings without nulls.
    form : names the format where `time_format` is given.
    error : raises at a row.
    """
    pl = library()
    if texts.dtype != pl.String:
        error(0, "is no time; name a column of times or numbers")
    if form.time_format is not None:
        found = _by_format(texts, form.time_format)
        wrong = found.is_null()
        if wrong.any():
            row = int(wrong.arg_true()[0])
            error(row, f"{texts[row]!r} is not of `time_format` {form.time_format!r}")
        return found
    for one in _FAST:
        if texts.head(100).str.to_datetime(one, strict=False).is_not_null().all():
            found = texts.str.to_datetime(one, strict=False)
            if found.is_not_null().all():
                return found
    counters = texts.str.extract_groups(_COUNTER).struct.unnest()
    if counters.height and counters["2"].is_not_null().all():
        around = counters.select("1", "3").unique()
        if around.height == 1:
            return counters["2"].cast(pl.Int128)
    return _from_parts(texts, error)


def _by_format(texts: Any, form: str) -> Any:
    """Return times of a format, null where a text has another one."""
    pl = library()
    try:
        found = texts.str.to_datetime(form, strict=False)
        if not found.null_count():
            return found
    except pl.exceptions.PolarsError:
        pass
    # Python knows formats that the library does not, such as an hour without minutes.
    times = {}
    for one in texts.unique():
        with contextlib.suppress(ValueError):
            time = datetime.strptime(one, form)
            since = (time - datetime(1970, 1, 1, tzinfo=time.tzinfo and UTC)) // _TICK
            times[one] = since
    return texts.replace_strict(times, default=None, return_dtype=pl.Int64)


def _from_parts(texts: Any, error: Callable[[int, str], NoReturn]) -> Any:
    """Return microseconds from the parts of each text."""
    pl = library()
    n = len(texts)
    parts: dict[str, Any] = {}
    known = np.zeros(n, dtype=bool)
    ordered = np.zeros(n, dtype=bool)
    for name, date in _DATES.items():
        left = np.flatnonzero(~known)
        if not len(left):
            break
        pattern = f"(?i){_DAY}{date}{_CLOCK}{_ZONE}"
        found = texts.gather(left).str.extract_groups(pattern).struct.unnest()
        hit = found["y"].is_not_null().to_numpy()
        known[left[hit]] = True
        ordered[left[hit]] = name == "order"
        for part in found.columns:
            if not part.isdigit():
                values = parts.setdefault(part, np.full(n, None, dtype=object))
                values[left[hit]] = found[part].to_numpy()[hit]
    cure = 'write times as 2024-01-31T23:59:00, or give `time_format`, such as "%d/%m/%Y"'
    if not known.all():
        row = int(np.argmin(known))
        error(row, f"{texts[row]!r} is no time of a known form; {cure}")

    def written(part: str) -> Any:
        return pl.Series([*parts.get(part, [None] * n)], dtype=pl.String)

    def number(part: str, default: float = 0.0) -> Any:
        return written(part).str.replace(",", ".").cast(pl.Float64).fill_null(default).to_numpy()

    month, day = number("m", 1), number("d", 1)
    if ordered.any():
        a, b = number("a"), number("b")
        late_a, late_b = ordered & (a > 12), ordered & (b > 12)
        if late_a.any() == late_b.any():
            row = int(np.argmax(late_b if late_b.any() else ordered))
            what = f"{texts[row]!r}: the column does not settle which is the day"
            if late_a.any():
                other = texts[int(np.argmax(late_a))]
                what = f"{texts[row]!r} and {other!r} differ in the order of day and month"
            error(row, f'{what}; give `time_format`, such as "%d/%m/%Y" or "%m/%d/%Y"')
        first, second = (b, a) if late_a.any() else (a, b)
        month, day = np.where(ordered, first, month), np.where(ordered, second, day)
    names = [None if one is None else str(one)[:3].lower() for one in parts.get("n", [])]
    if any(one is not None for one in names):
        at = np.array([0 if one is None else _month(one) for one in names])
        if (at < 0).any():
            row = int(np.argmin(at))
            error(row, f"{texts[row]!r} names no month in English; {cure}")
        month = np.where(at > 0, at, month)
    quarter, week = number("q"), number("w")
    month = np.where(quarter > 0, 3 * quarter - 2, month)
    hour, half = number("h"), written("p").str.to_lowercase().str.head(1)
    pm, am = ((half == one).fill_null(False).to_numpy() for one in "pa")
    hour = np.where(pm & (hour < 12), hour + 12, np.where(am & (hour == 12), 0, hour))
    minute, second = number("i"), number("s")
    year = number("y")
    dates = _dates("{:04.0f}-{:02.0f}-{:02.0f}", "%Y-%m-%d", year, month, day)
    if (week > 0).any():
        weeks = _dates("{:04.0f}-W{:02.0f}-{:.0f}", "%G-W%V-%u", year, week, number("e", 1))
        dates = pl.select(pl.when(pl.lit(pl.Series(week > 0))).then(weeks).otherwise(dates))
        dates = dates.to_series()
    wrong = dates.is_null().to_numpy() | (hour > 24) | (minute > 59) | (second >= 61)
    if wrong.any():
        row = int(np.argmax(wrong))
        error(row, f"{texts[row]!r} is no time that exists; correct it")
    zone = written("z")
    zoned = zone.is_not_null().to_numpy()
    if zoned.any() and not zoned.all():
        row = int(np.argmin(zoned))
        error(row, f"{texts[row]!r} names no time zone, other rows do; write one in all or none")
    shift = np.array([_minutes(one) for one in zone.to_list()]) if zoned.any() else np.zeros(n)
    days = dates.cast(pl.Int64).to_numpy()
    seconds = days * 86400 + hour * 3600 + (minute - shift) * 60
    return pl.Series(np.round(seconds * 1e6).astype(np.int64) + np.round(second * 1e6).astype(int))


def _dates(written: str, form: str, *parts: np.ndarray[Any, Any]) -> Any:
    """Return a series of dates, null where there is no such day."""
    texts = [written.format(*one) for one in zip(*parts, strict=True)]
    return library().Series(texts).str.to_date(form, strict=False)


def _month(name: str) -> int:
    return _MONTHS.index(name) + 1 if name in _MONTHS else -1


def _minutes(zone: str) -> int:
    """Return the minutes east of Greenwich of a zone as written.

    >>> _minutes("Z"), _minutes("+02:00"), _minutes("-0530")
    (0, 120, -330)
    """
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return -minutes if zone[0] == "-" else minutes
