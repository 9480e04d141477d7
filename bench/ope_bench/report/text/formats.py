"""Values as people read them in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ope_bench.boards.columns.column import ColumnFormat
from ope_bench.canonical import canonical_json

__all__ = [
    "ACCESS_LETTERS",
    "MISSING",
    "access_letters",
    "figure",
    "percent",
    "seconds",
    "value_text",
]

MISSING = "-"

ACCESS_LETTERS = {
    "samples": MISSING,
    "propensity": "p",
    "logging_policy": "L",
    "target_policy": "T",
    "embedding_distribution": "E",
}


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number in three digits, a dash for none; thousands up to 9,999 in full.

    >>> figure(0.01234), figure(None), figure(1234.5), figure(12345.0), figure(0.0)
    ('0.0123', '-', '1234', '1.23e4', '0')
    """
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if 1e-3 <= abs(value) < 9999.5:
        # Trailing zeros are digits that are known.
        text = f"{value:#.{digits}g}"
        return f"{value:.0f}" if "e" in text else text.removesuffix(".")
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def percent(value: float | None) -> str:
    """Return a share in percent, a dash for none; only none at all is 0 %, only all are 100 %.

    >>> percent(0.001), percent(0.5), percent(1.0), percent(None)
    ('<1%', '50%', '100%', '-')
    """
    if value is None:
        return MISSING
    if 0 < value < 0.005:
        return "<1%"
    if 0.995 <= value < 1:
        return ">99%"
    return f"{100 * value:.0f}%"


def seconds(value: float | None) -> str:
    """Return a duration with its unit.

    >>> seconds(0.0000123), seconds(0.00123), seconds(2.5), seconds(None)
    ('12.3us', '1.23ms', '2.50s', '-')
    """
    if value is None:
        return MISSING
    if value < 1e-3:
        return f"{figure(value * 1e6)}us"
    return f"{figure(value * 1000)}ms" if value < 1 else f"{figure(value)}s"


def access_letters(access: Sequence[str]) -> str:
    """Return what an estimator is given beyond samples, a letter each.

    >>> access_letters(["propensity", "logging_policy", "target_policy"]), access_letters([])
    ('LT', '-')
    """
    words = list(access)
    if "logging_policy" in words and "propensity" in words:
        # Who has the policy has its propensities.
        words.remove("propensity")
    return "".join(ACCESS_LETTERS.get(word, "?") for word in words) or MISSING


def _megabytes(value: float) -> str:
    return f"{value / 2**20:.0f}M"


def _failures(status: Mapping[str, int]) -> str:
    return ", ".join(f"{word} {count}" for word, count in status.items() if word != "ok")


def _count(value: float) -> str:
    return str(value) if isinstance(value, int) else figure(value)


def _details(value: Any) -> str:
    """Return a list or a mapping of numbers and texts, without brackets."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_details(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_details, value))
    if isinstance(value, float):
        return figure(value)
    return value if isinstance(value, str) else canonical_json(value)


def _flag(value: bool) -> str:
    return "yes" if value else "no"


FORMATS: Mapping[ColumnFormat, Callable[[Any], str]] = {
    "number": figure,
    "percent": percent,
    "seconds": seconds,
    "bytes": _megabytes,
    "count": _count,
    "text": str,
    "flag": _flag,
    "estimator": str,
    "access": access_letters,
    "status": _failures,
    "json": _details,
}


def value_text(value: Any, form: ColumnFormat) -> str:
    """Return a column's value as text: a range for two numbers, a dash for none.

    >>> value_text((0.1, 0.25), "percent"), value_text(None, "count")
    ('10%-25%', '-')
    """
    if value is None:
        return MISSING
    if isinstance(value, tuple):
        return "-".join(FORMATS[form](part) for part in value)
    return FORMATS[form](value) or MISSING
