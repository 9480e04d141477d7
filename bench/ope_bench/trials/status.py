"""The statuses of trials, and the fields of a record."""

from __future__ import annotations

import enum
import json
import math
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from ope_bench.base.canonical import scalar

Retry = Literal["failed", "all"]
"""The stored outcomes that a run replaces: broken ones, or all."""


class Severity(enum.IntEnum):
    """Severity of an outcome; larger is worse."""

    FINE = 0
    """A finite estimate."""
    WARNING = 1
    """A result without an estimate."""
    BROKEN = 2
    """A failure; a run with one exits with 3."""
    NOT_RUN = 3
    """Nothing computed, and so nothing to compare."""


class _Meaning(NamedTuple):
    severity: Severity
    is_answer: bool = True
    limit: Literal["timeout", "memory"] | None = None


_FAILURE = _Meaning(Severity.BROKEN)


class Status(enum.StrEnum):
    """The outcome of a trial.

    Attributes
    ----------
    severity : severity of the outcome.
    is_answer : the code gives the same outcome on every machine; the outcome of a trial that was
        stopped from outside may differ elsewhere.
    limit : the limit that the trial exceeded; with a larger one the outcome may differ.
    broken : a run with this outcome exits with 3.
    tried : the estimator ran: failure rates are shares of such trials.
    """

    severity: Severity
    is_answer: bool
    limit: Literal["timeout", "memory"] | None
    broken: bool
    tried: bool

    OK = "ok", _Meaning(Severity.FINE)
    POSITIVITY = "positivity", _Meaning(Severity.WARNING)
    NONFINITE = "nonfinite", _FAILURE
    ERROR = "error", _FAILURE
    TIMEOUT = "timeout", _Meaning(Severity.BROKEN, is_answer=False, limit="timeout")
    MEMORY = "memory", _Meaning(Severity.BROKEN, is_answer=False, limit="memory")
    CRASH = "crash", _Meaning(Severity.BROKEN, is_answer=False)
    UNAVAILABLE = "unavailable", _Meaning(Severity.NOT_RUN, is_answer=False)

    def __new__(cls, word: str, meaning: _Meaning = _FAILURE) -> Self:
        """Make a member; the default lets type checkers accept the call Status("ok")."""
        status = str.__new__(cls, word)
        status._value_ = word
        status.severity, status.is_answer, status.limit = meaning
        status.broken = status.severity is Severity.BROKEN
        status.tried = status.severity is not Severity.NOT_RUN
        return status


# The columns of a record, derived from its fields, their types and their metadata.

Plain = float | int | str | None

LOCAL: dict[str, Any] = {"exported": False}
"""Not in exports: it names files of one machine."""
SHARED: dict[str, Any] = {"shared": True}
"""A string shared by thousands of records: interned."""
ANSWER: dict[str, Any] = {"baseline": "answer"}
"""A result of the estimator: in every line of a baseline where it exists."""
DATA: dict[str, Any] = {"baseline": "data"}
"""A fact of the data: in a baseline's first line of a replicate."""
WORD: dict[str, Any] = {"baseline": "word"}
"""A word that belongs to the answer: in every line of a baseline where it exists."""


@dataclass(frozen=True)
class RecordField:
    """A field of a record with its conversions and where it is exported.

    Parameters
    ----------
    name : name of the field.
    to_plain : converts a value that is not None to a plain value.
    from_plain : converts a plain value back; None where both are equal.
    type : name of the exported type, such as ``int64``; ``json`` for JSON text.
    exported : whether exports have it.
    baseline : its group of values in a line of a baseline; None if it is not in baselines.
    """

    name: str
    to_plain: Callable[[Any], Plain]
    from_plain: Callable[[Any], Any] | None
    type: str
    exported: bool = True
    baseline: Literal["answer", "data", "word"] | None = None


def columns_of(record: type) -> tuple[RecordField, ...]:
    """Return the columns of a dataclass, one for each field whose type has a plain form."""
    hints = get_type_hints(record)
    columns = []
    for one in fields(record):
        hint = hints[one.name]
        # The class of values that are not None: float for ``float | None``.
        if get_origin(hint) in (Union, types.UnionType):
            (hint,) = (part for part in get_args(hint) if part is not types.NoneType)
        codec = _CODECS.get(get_origin(hint) or hint)
        if codec is None:
            continue
        to_plain, from_plain, kind = codec
        given = dict(one.metadata)
        restored = sys.intern if given.pop("shared", False) else from_plain
        columns.append(RecordField(one.name, to_plain, restored, kind, **given))
    return tuple(columns)


def _text(value: Any) -> str:
    text = str(value)
    # SQLite rejects lone surrogates, which come from undecodable file names.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _number(value: Any) -> float | None:
    number = float(value)
    return None if math.isnan(number) else number


def _mapping(text: str) -> dict[str, Any]:
    if text == "{}":
        return {}
    return {sys.intern(name): value for name, value in json.loads(text).items()}


@cache
def _tuple(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


_CODECS: dict[Any, tuple[Callable[[Any], Plain], Callable[[Any], Any] | None, str]] = {
    str: (_text, None, "string"),
    float: (_number, None, "double"),
    int: (int, None, "int64"),
    bool: (int, bool, "bool"),
    Status: (_text, Status, "string"),
    Mapping: (lambda value: json.dumps(dict(value), default=scalar), _mapping, "json"),
    tuple: (lambda value: json.dumps([*value]), _tuple, "json"),
}
"""How values of a class are made plain, how they are restored, and the exported type."""


class Device(enum.StrEnum):
    """The device on which a trial trains, and how many replicates are trained together.

    Block k of a batched device holds the replicates [k size, (k + 1) size). All of them are
    trained, even those that no plan contains, so that a trial's key alone determines its result.
    On a CPU more than 25 are no faster (the matrices no longer fit the cache), and fewer blocks
    than workers leave workers idle; a GPU needs more replicates for full use.

    Attributes
    ----------
    backend : ``cpu`` or ``cuda``, the ``device`` that is passed to estimators.
    block_size : number of replicates that are trained together.
    batched : whether ``block_size`` exceeds one.

    >>> Device("cuda-batch").backend, Device("cuda-batch").block_size, Device.CPU.block_size
    ('cuda', 50, 1)
    """

    backend: str
    block_size: int
    batched: bool

    CPU = "cpu", "cpu", 1
    CUDA = "cuda", "cuda", 1
    CPU_BATCH = "cpu-batch", "cpu", 25
    CUDA_BATCH = "cuda-batch", "cuda", 50

    def __new__(cls, word: str, backend: str = "cpu", block_size: int = 1) -> Self:
        """Make a member; the defaults let type checkers accept the call Device("cpu")."""
        device = str.__new__(cls, word)
        device._value_ = word
        device.backend = backend
        device.block_size = block_size
        device.batched = block_size > 1
        return device
