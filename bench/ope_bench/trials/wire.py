"""Messages between a process that judges and one that runs foreign code: JSON and bytes of arrays.

No pickle of one side is ever loaded by the other. Numbers, texts and arrays are sent. Everything
else stays where it is: the other side has an object in its place whose methods ask.
"""

from __future__ import annotations

import io
import json
import math
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np

from ope_bench.base import errors
from ope_bench.base.errors import OpeBenchError, PluginError, PositivityViolation
from ope_bench.contracts.data import Column, Schema
from ope_bench.contracts.embeddings import (
    DeterministicEmbedding,
    EmbeddingDistribution,
    FactoredEmbedding,
    FiniteEmbedding,
)
from ope_bench.contracts.plugins import Estimate, Interval
from ope_bench.contracts.policies import DiscretePolicy, ListPolicy, Policy
from ope_bench.contracts.random import DataSeed

_POLICY = ("probability", "sample", "expect")
_TABLE = (*_POLICY, "table", "draw", "contract", "project")
_DISTRIBUTION = ("probability", "sample", "support", "marginal", "masses", "codes")

KINDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "seed": (DataSeed, ("estimator", "nuisance")),
    "lists": (ListPolicy, (*_TABLE, "conditional", "second_moments")),
    "table": (DiscretePolicy, _TABLE),
    "policy": (Policy, _POLICY),
    "finite": (FiniteEmbedding, _DISTRIBUTION),
    "factored": (FactoredEmbedding, _DISTRIBUTION),
    "deterministic": (DeterministicEmbedding, _DISTRIBUTION),
    "distribution": (EmbeddingDistribution, _DISTRIBUTION),
    "function": (object, ("__call__", "everywhere", "at", "means")),
}
"""Kinds of objects that are asked, and their methods: the first kind that fits."""

ATTRIBUTES = (
    *("n_actions", "full_support", "length", "has_density"),
    *("atoms", "table", "tables", "action_embedding"),
)
"""Attributes of them that are sent, where they are no methods."""

MOST_BYTES = 1 << 31

MOST_CHARACTERS = 20_000

_TOLD = "_told_by_the_other_end"


class WireError(ValueError):
    """Bytes that are no message."""


class Stub:
    """An object of the other side."""

    _peer: Peer
    _place: int


def _asking(name: str) -> Callable[..., Any]:
    return lambda self, *given, **named: self._peer.ask(self._place, name, *given, *named.values())


class Peer:
    """One end of a connection; it answers the other end while it waits for an answer itself.

    Parameters
    ----------
    descriptor : of the socket.
    shared : objects that the other end may ask, each with the methods.
    """

    caught: type[BaseException] = Exception
    trusting = False
    """Whether the other end may send any value; of one that may not, none becomes an attribute."""

    _lends = False

    def __init__(self, descriptor: int, *shared: tuple[object, Sequence[str]]) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._reader = self._socket.makefile("rb")
        self._shared, self._lock = [*shared], RLock()

    def ask(self, place: int, method: str, *arguments: Any) -> Any:
        """Call a method of an object of the other end."""
        with self._lock:  # an estimator may ask from several threads
            self._send("ask", place, method, [*arguments])
            return self.answer(arguments)

    def answer(self, arguments: Sequence[Any] = ()) -> Any:
        """Answer the other end until it returns; return that.

        Raises
        ------
        EOFError, OSError : the other end is gone.
        WireError : it sends what is no message.
        """
        while True:
            match self._receive():
                case ["return", value, [*states]]:
                    # A stream goes on where the draws of the other end ended.
                    for stream, state in zip(_streams(arguments), states, strict=True):
                        stream.bit_generator.state = state
                    return value
                case ["raise", dict(told)]:
                    raise _rebuilt(told)
                case ["ask", int(place), str(method), [*given]]:
                    try:
                        target, methods = self._shared[place]
                        if method not in methods:
                            msg = f"'{method}' cannot be asked"
                            raise PluginError(msg)
                        value = getattr(target, method)(*given)
                        states = [one.bit_generator.state for one in _streams(given)]
                        self._send("return", value, states)
                    except self.caught as exc:
                        self._send("raise", vars(exc).get(_TOLD) or self.describe(exc, method))
                case _:
                    msg = "no message"
                    raise WireError(msg)

    def describe(self, exc: BaseException, method: str) -> dict[str, Any]:
        """Describe an exception of a method for the other end."""
        # What an environment says of its own mistakes may hold what nobody shall know.
        known = isinstance(exc, OpeBenchError)
        told = str(exc) if known else f"`{method}` of the policy cannot use what it was given"
        return {"kind": type(exc).__name__, "message": told}

    def _send(self, *message: Any) -> None:
        arrays: list[bytes] = []
        text = json.dumps(self._packed([*message], arrays)).encode()
        sizes = len(text), sum(map(len, arrays))
        head = b"".join(size.to_bytes(8, "big") for size in sizes)
        self._socket.sendall(b"".join([head, text, *arrays]))

    def _receive(self) -> Any:
        if len(head := self._reader.read(16)) < 16:
            raise EOFError
        sizes = [int.from_bytes(part, "big") for part in (head[:8], head[8:])]
        try:
            if max(sizes) > MOST_BYTES:
                raise OverflowError
            text, content = map(self._reader.read, sizes)
            message = json.loads(text)
            # Questions may be about objects of this end; an answer might be shown as text.
            self._lends = self.trusting or message[0] == "ask"
            return self._unpacked(message, io.BytesIO(content))
        # Of NumPy, of JSON, of texts that are nested without end.
        except Exception as exc:
            msg = f"no message: {type(exc).__name__}"
            raise WireError(msg) from exc

    def _packed(self, value: Any, arrays: list[bytes]) -> Any:
        def pack(part: Any) -> Any:
            return self._packed(part, arrays)

        match value:
            case None | bool() | int() | float() | str():
                return value
            case np.generic():
                return pack(value.item())
            case list():
                return [*map(pack, value)]
            case tuple():
                return {"tuple": [*map(pack, value)]}
            case dict():
                return {"map": [[*map(pack, item)] for item in value.items()]}
            case slice():
                return {"slice": [value.start, value.stop, value.step]}
            case np.random.Generator():
                return {"stream": value.bit_generator.state}
            case np.ndarray():
                order: Any = "F" if value.flags.fnc else "C"
                arrays.append(value.tobytes(order))
                return {"array": [value.dtype.str, value.shape, order]}
            case Column() | Schema() | Interval() | Estimate():
                return {"value": [type(value).__name__, pack(vars(value))]}
            case Stub():
                return {"yours": value._place}
        for kind, (base, names) in KINDS.items():
            methods = [name for name in names if hasattr(value, name)]
            if isinstance(value, base) and methods:
                self._shared.append((value, methods))
                held = {one: getattr(value, one) for one in ATTRIBUTES if hasattr(value, one)}
                sent = {one: part for one, part in held.items() if not callable(part)}
                return {"object": [kind, len(self._shared) - 1, methods, pack(sent)]}
        msg = f"{type(value).__name__} cannot be sent where policies are asked"
        raise TypeError(msg)

    def _unpacked(self, value: Any, file: io.BytesIO) -> Any:
        def unpack(part: Any) -> Any:
            return self._unpacked(part, file)

        match value:
            case list():
                return [*map(unpack, value)]
            case {"tuple": parts}:
                return tuple(map(unpack, parts))
            case {"map": items}:
                return dict(map(unpack, items))
            case {"slice": ends}:
                return slice(*ends)
            case {"stream": state}:
                bits = np.random.PCG64(0)
                bits.state = state
                return np.random.Generator(bits)
            case {"array": [str(name), [*shape], order]}:
                # NumPy ends the process at some names of types, and at sizes below 0.
                plain = self.trusting or _TYPE.fullmatch(name)
                if not plain or not all(type(one) is int and one >= 0 for one in shape):
                    raise TypeError(name)
                dtype = np.dtype(name)
                if dtype.kind not in "biufcSUmM":
                    raise TypeError(name)
                content = bytearray(file.read(dtype.itemsize * math.prod(shape)))
                array = np.ndarray(shape, dtype, content, order=order)
                # A byte of another value is neither true nor false.
                return array.view(np.uint8) != 0 if dtype.kind == "b" else array
            case {"value": [name, fields]}:
                made = _VALUES if self.trusting else _ANSWERS
                return made[name](**unpack(fields))
            case {"yours": int(place)} if self._lends:
                return self._shared[place][0]
            case {"object": [kind, place, methods, sent]}:
                base, known = KINDS[kind]
                named = {name: _asking(name) for name in methods if name in known}
                bases = (Stub, base) if kind not in _BARE else (Stub,)
                cls: Any = type(kind, bases, named)
                stub = cls.__new__(cls)
                # NumPy reads memory where an object's `__array_interface__` says, and more.
                given = {one: part for one, part in unpack(sent).items() if one in ATTRIBUTES}
                if not self.trusting and not all(map(_is_plain, given.values())):
                    raise TypeError(kind)
                vars(stub).update(given, _peer=self, _place=int(place))
                return stub
        return value


_ANSWERS: dict[str, Any] = {one.__name__: one for one in (Interval, Estimate)}

_VALUES = _ANSWERS | {one.__name__: one for one in (Column, Schema)}

_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|U[1-9]\d{0,5})")
"""Types of arrays that a process may send which is not trusted."""

_BARE = ("seed", "policy", "distribution", "function")
"""Kinds without a base class that estimators know."""


def _is_plain(value: object) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    return value is None or type(value) in (bool, int, float, str, np.ndarray)


def _streams(arguments: Sequence[Any]) -> list[np.random.Generator]:
    return [one for one in arguments if isinstance(one, np.random.Generator)]


def _rebuilt(told: Mapping[str, Any]) -> BaseException:
    """Return an exception of the other end: of a class of ours, or of one of the same name."""
    texts = [told.get(one, "") for one in ("kind", "message", "output", "trace")]
    if not all(type(one) is str for one in texts):
        msg = "no message: an exception without words"
        raise WireError(msg)
    kind, message, output, trace = (one[:MOST_CHARACTERS] for one in texts)
    kind = "".join(filter(str.isprintable, kind[:200]))
    known = getattr(errors, kind, {"MemoryError": MemoryError, "SystemExit": SystemExit}.get(kind))
    if not (
        isinstance(known, type) and issubclass(known, OpeBenchError | MemoryError | SystemExit)
    ):
        known = type(kind, (Exception,), {})
    more = {one: told.get(one) for one in ("unsupported_mass", "fallback")}
    exc = known(message, **more) if known is PositivityViolation else known(message)
    sys.stdout.write(output)
    exc.add_note(trace)
    vars(exc)[_TOLD] = told  # it may pass through this end
    return exc
