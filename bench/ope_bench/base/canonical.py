"""Plain values, and canonical JSON: equal values give equal text on every machine.

Not RFC 8785: it orders keys and formats floats differently, so stored keys would change.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PLAIN = frozenset({str, int, bool})


def canonical_json(value: Any) -> str:
    """Serialize a value as JSON with sorted keys, no spaces and floats that round-trip.

    >>> canonical_json({"b": 1, "a": (1.0, None)})
    '{"a":[1.0,null],"b":1}'
    """
    return json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
        allow_nan=False,
        default=_canonical,
    )


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "get_params"):
        return {"class": type(value).__qualname__, "params": value.get_params(deep=False)}
    msg = f"{type(value).__name__} has no canonical form"
    raise TypeError(msg)


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; empty without one."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def scalar(value: Any) -> Any:
    """Convert a NumPy scalar to a Python one, and a number that is not finite to None."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any, number: Callable[[float], float | int] = float) -> Any:
    """Convert a value to JSON types: mappings, lists, strings, finite numbers; else None.

    Parameters
    ----------
    value : objects of types that JSON lacks become text.
    number : function applied to every finite float, for example to round it.

    >>> plain({"a": (1.5, float("nan"))})
    {'a': [1.5, None]}
    """
    # Nearly all values are of these types; the checks below cost more.
    if value is None or type(value) in _PLAIN:
        return value
    if type(value) is float:
        return number(value) if math.isfinite(value) else None
    value = scalar(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one, number) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, number) for one in value]
    if isinstance(value, float):
        return number(value)
    return value if value is None or isinstance(value, str | int | bool) else str(value)
