"""The columns of a record, derived from its fields, their types and their metadata.

A field's type determines the conversion to a plain value and back; its metadata determines where
else than in a store it appears.
"""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from ope_bench.canonical import scalar
from ope_bench.trials.status import Status

__all__ = [
    "ANSWER",
    "DATA",
    "EXPORTED",
    "SECONDS",
    "SHARED",
    "WORD",
    "Column",
    "Plain",
    "columns_of",
]

Plain = float | int | str | None

EXPORTED: dict[str, Any] = {"exported": True}
"""A column of ``ope-bench export``."""
SHARED: dict[str, Any] = {"shared": True}
"""A string shared by thousands of records: interned."""
ANSWER: dict[str, Any] = {"baseline": "answer"}
"""A result of the estimator: in every line of a baseline where it exists."""
DATA: dict[str, Any] = {"baseline": "data"}
"""A fact of the data: in a baseline's first line of a replicate."""
WORD: dict[str, Any] = {"baseline": "word"}
"""A word that belongs to the answer: in every line of a baseline where it exists."""
SECONDS: dict[str, Any] = {"baseline": "seconds"}
"""A time: in a line of a baseline if the trial ran alone."""


@dataclass(frozen=True)
class Column:
    """A field of a record with its conversions and where it is exported.

    Parameters
    ----------
    name : name of the field.
    to_plain : converts a value that is not None to a plain value.
    from_plain : converts a plain value back; None where both are equal.
    type : pyarrow's name of the exported type; ``json`` for JSON text.
    exported : whether exports have it.
    baseline : its group of values in a line of a baseline; None if it is not in baselines.
    """

    name: str
    to_plain: Callable[[Any], Plain]
    from_plain: Callable[[Any], Any] | None
    type: str
    exported: bool = False
    baseline: Literal["answer", "data", "seconds", "word"] | None = None


class _Codec(NamedTuple):
    to_plain: Callable[[Any], Plain]
    from_plain: Callable[[Any], Any] | None
    type: str


def columns_of(record: type) -> tuple[Column, ...]:
    """Return the columns of a dataclass, one for each field whose type has a plain form."""
    hints = get_type_hints(record)
    columns = []
    for one in fields(record):
        codec = _CODECS.get(_class_of(hints[one.name]))
        if codec is None:
            continue
        given = dict(one.metadata)
        restored = sys.intern if given.pop("shared", False) else codec.from_plain
        columns.append(Column(one.name, codec.to_plain, restored, codec.type, **given))
    return tuple(columns)


def _class_of(hint: Any) -> Any:
    """Return the class of values that are not None: float for ``float | None``."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not types.NoneType)
    return get_origin(hint) or hint


def _text(value: Any) -> str:
    # SQLite rejects lone surrogates, which come from undecodable file names.
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def _number(value: Any) -> float | None:
    number = float(value)
    return None if math.isnan(number) else number


def _object(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), default=scalar)


def _mapping(text: str) -> dict[str, Any]:
    if text == "{}":
        return {}
    return {sys.intern(name): value for name, value in json.loads(text).items()}


def _list(value: tuple[Any, ...]) -> str:
    return json.dumps(list(value))


@cache
def _tuple(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


_CODECS: dict[Any, _Codec] = {
    str: _Codec(_text, None, "string"),
    float: _Codec(_number, None, "double"),
    int: _Codec(int, None, "int64"),
    bool: _Codec(int, bool, "bool"),
    Status: _Codec(_text, Status, "string"),
    Mapping: _Codec(_object, _mapping, "json"),
    tuple: _Codec(_list, _tuple, "json"),
}
"""Conversions by the class of a field's values."""
