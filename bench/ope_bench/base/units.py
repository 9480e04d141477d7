"""Parse and format sizes and durations: ``4GiB``, ``60s``, ``2m``, ``1h30m``.

pydantic's `ByteSize` reads sizes and pytimeparse durations, but their error messages do not say
which forms are accepted.
"""

from __future__ import annotations

import math
import re

from ope_bench.base.errors import UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _BYTES |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_DURATION = re.compile(rf"(?:{_NUMBER}\s*(?:ms|min|s|m|h|d)\s*)+", re.ASCII)
_DURATION_PART = re.compile(rf"({_NUMBER})\s*(ms|min|s|m|h|d)", re.ASCII)
_SIZE = re.compile(rf"({_NUMBER})\s*([kmgt]?(?:i?b)?)", re.ASCII | re.IGNORECASE)


def parse_duration(given: object) -> float:
    """Parse a duration into seconds.

    Raises
    ------
    UsageError : not a positive, finite duration.

    >>> parse_duration("1m30s"), parse_duration(45)
    (90.0, 45.0)
    """
    seconds = math.nan
    if isinstance(given, int | float) and not isinstance(given, bool):
        seconds = _float(given)
    elif isinstance(given, str):
        text = given.strip().lower()
        if _DURATION.fullmatch(text):
            parts = _DURATION_PART.findall(text)
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        elif re.fullmatch(_NUMBER, text, re.ASCII):
            seconds = float(text)
    if not (math.isfinite(seconds) and seconds > 0):
        msg = f"{given!r} is not a duration; write for example 60s, 2m or 1h30m"
        raise UsageError(msg)
    return seconds


def parse_size(given: object) -> int:
    """Parse a memory size into bytes.

    Raises
    ------
    UsageError : not a positive, finite size.

    >>> parse_size("4GiB") == 4 * 1024**3
    True
    """
    size = math.nan
    if isinstance(given, int | float) and not isinstance(given, bool):
        size = _float(given)
    elif isinstance(given, str) and (match := _SIZE.fullmatch(given.strip())):
        size = float(match[1]) * _BYTES[match[2].lower()]
    if not (math.isfinite(size) and 1 <= size < 2**62):
        msg = f"{given!r} is not a memory size; write for example 512MiB or 4GiB"
        raise UsageError(msg)
    return int(size)


def _float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def format_duration(seconds: float) -> str:
    """Format a duration in at most two units.

    >>> [format_duration(s) for s in (0.0123, 4.26, 75, 3700, 200_000)]
    ['12 ms', '4.3 s', '1 min 15 s', '1 h 1 min', '2 d 7 h']
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, below, below_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name}" + (f" {rest} {below_name}" if rest else "")
    return f"{whole} s"


def format_estimate(seconds: float) -> str:
    """Format a duration that is known roughly, in two digits.

    >>> [format_estimate(s) for s in (0.0123, 37.6, 4.26, 757)]
    ['12 ms', '38 s', '4.3 s', '12 min 40 s']
    """
    return format_duration(float(f"{seconds:.2g}")).replace(".0 s", " s")


def format_size(size: float) -> str:
    """Format a size in binary units.

    >>> format_size(4 * 1024**3), format_size(1536)
    ('4 GiB', '1.5 KiB')
    """
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def counted(number: float, noun: str, one: str = "", many: str = "") -> str:
    """Return a number with its noun, and with the form of a verb that goes with it.

    >>> counted(1, "check"), counted(2992, "row", " is", " are")
    ('1 check', '2,992 rows are')
    """
    return f"{number:,} {noun}{one}" if number == 1 else f"{number:,} {noun}s{many}"


def all_passed(number: int, of: str = "") -> str:
    """Return that all checks passed.

    >>> all_passed(1), all_passed(5, " of the log")
    ('the only check passed', 'all 5 checks of the log passed')
    """
    if number == 1:
        return f"the only check{of} passed"
    return f"all {number:,} checks{of} passed"
