"""The lines that a worker sends: bounded in size, checked in shape.

A trial runs in the process that sends them, so whatever arrives may be its work. What does not fit
is a `MessageError`, which costs the trial and its worker, never the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from ope_bench.trials.record import TrialRecord
from ope_bench.trials.serialization import RECORD, facts_from
from ope_bench.trials.status import Status

__all__ = [
    "BUFFER_BYTES",
    "MESSAGE_BYTES",
    "Batch",
    "Cramped",
    "Done",
    "Fit",
    "LineBuffer",
    "Message",
    "MessageError",
    "Ready",
    "parse_message",
]

BUFFER_BYTES = 1 << 18
"""Bytes read from a worker in one turn of the coordinator."""

MESSAGE_BYTES = 4 << 20
"""Longest message. A record with all that a trial may attach to it takes less than half."""

LARGEST_BLOCK = 1 << 20
"""Replicates that one message may speak of."""

_INTEGERS = range(-(1 << 63), 1 << 63)
_SCALARS = (float, int, str, bool, type(None))
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "json": (str,),
    "double": (float, int),
    "int64": (int,),
    "bool": (int,),
}
_HINTS = get_type_hints(TrialRecord)
_CLASSES = {
    column.name: _TYPES[column.type]
    + (type(None),) * (type(None) in get_args(_HINTS[column.name]))
    for column in RECORD
}
"""The types of each column's plain values."""

_NEEDED = frozenset({"code_digest"})
_FACTS = _CLASSES.keys() - {"status"}
"""What a worker may tell before the end."""


class MessageError(ValueError):
    """Input that is no message of a worker."""


@dataclass(frozen=True)
class Ready:
    """The worker has started."""


@dataclass(frozen=True)
class Cramped:
    """No trial can run within the memory limit."""

    reason: str


@dataclass(frozen=True)
class Batch:
    """This number of replicates is trained together first."""

    size: int


@dataclass(frozen=True)
class Fit:
    """The trial's fit begins."""

    facts: dict[str, Any]


@dataclass(frozen=True)
class Done:
    """The trial's record, and whether the worker must be replaced."""

    row: tuple[Any, ...]
    retire: bool


Message = Ready | Cramped | Batch | Fit | Done


class LineBuffer:
    """Lines from buffers, each byte looked at once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def lines(self, buffer: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a new buffer.

        Raises
        ------
        MessageError : a line is longer than ``MESSAGE_BYTES``.
        """
        *ended, rest = buffer.split(b"\n")
        for part in ended:
            self._append(part)
            line = b"".join(self._parts)
            self._parts, self._size = [], 0
            yield line
        self._append(rest)

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MESSAGE_BYTES:
            msg = f"a message of more than {MESSAGE_BYTES >> 20} MiB"
            raise MessageError(msg)
        if part:
            self._parts.append(part)


def parse_message(line: bytes) -> Message:
    """Parse one line.

    Raises
    ------
    MessageError : it is not JSON, or not one of the messages.
    """
    try:
        kind, *content = json.loads(line)
        return _MAKERS[kind](*content)
    except MessageError:
        raise
    # Wrong JSON, nested too deeply, not a list or a mapping, an unknown kind, values that are too
    # few or too many.
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as exc:
        msg = f"no message: {type(exc).__name__}"
        raise MessageError(msg) from exc


def _require(true: bool, what: str) -> None:
    if not true:
        raise MessageError(what)


def _cramped(reason: Any) -> Cramped:
    _require(isinstance(reason, str), "no reason")
    return Cramped(_storable(reason))


def _batch(size: Any) -> Batch:
    _require(type(size) is int and 1 <= size <= LARGEST_BLOCK, "no size of a block")
    return Batch(size)


def _fit(facts: Any) -> Fit:
    _require(type(facts) is dict and _NEEDED <= facts.keys() <= _FACTS, "unknown facts")
    _require_values(facts)
    return Fit(facts)


def _done(row: Any, retire: Any) -> Done:
    _require(type(row) is list and len(row) == len(_CLASSES), "no row of a record")
    facts = dict(zip(_CLASSES, row, strict=True))
    _require_values(facts)
    Status(facts["status"])
    return Done(tuple(row), bool(retire))


def _require_values(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        _require_value(value, _CLASSES[name])
    diagnostics = facts.get("diagnostics", "{}")
    if diagnostics != "{}":
        values = json.loads(diagnostics).values()
        _require(all(type(value) in _SCALARS for value in values), "no diagnostics")
    if "access" in facts:
        _require(type(facts_from({"access": facts["access"]})["access"]) is tuple, "no access")


def _require_value(value: Any, classes: tuple[type, ...]) -> None:
    if type(value) not in classes:
        msg = f"a {type(value).__name__} instead of a {classes[0].__name__}"
        raise MessageError(msg)
    if type(value) is int:
        _require(value in _INTEGERS, "an integer that the store cannot hold")
    elif type(value) is str:
        _storable(value)


def _storable(text: str) -> str:
    """Return a text that SQLite can hold.

    Raises
    ------
    UnicodeEncodeError : it has lone surrogates, which no honest worker sends.
    """
    if not text.isascii():
        text.encode()
    return text


_MAKERS: dict[str, Callable[..., Message]] = {
    "ready": Ready,
    "cramped": _cramped,
    "batch": _batch,
    "fit": _fit,
    "done": _done,
}
