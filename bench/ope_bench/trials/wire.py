"""Messages between a process that judges and one that runs foreign code: JSON, and NumPy's files.

No pickle of one side is ever loaded by the other. What is no number, text or array stays where it
is: the other side is told its kind and its number, and asks.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ope_bench.contracts.embeddings import (
    DeterministicEmbedding,
    EmbeddingDistribution,
    FactoredEmbedding,
    FiniteEmbedding,
)
from ope_bench.contracts.policies import DiscretePolicy, ListPolicy, Policy
from ope_bench.contracts.random import DataSeed

_POLICY = ("probability", "sample", "expect")
_TABLE = (*_POLICY, "table", "draw", "contract", "project")
_DISTRIBUTION = ("probability", "sample", "support", "marginal", "masses", "codes")

ASKED: dict[str, tuple[type, tuple[str, ...]]] = {
    "seed": (DataSeed, ("estimator", "nuisance")),
    "lists": (ListPolicy, (*_TABLE, "conditional", "second_moments")),
    "table": (DiscretePolicy, _TABLE),
    "policy": (Policy, _POLICY),
    "finite": (FiniteEmbedding, _DISTRIBUTION),
    "factored": (FactoredEmbedding, _DISTRIBUTION),
    "deterministic": (DeterministicEmbedding, _DISTRIBUTION),
    "distribution": (EmbeddingDistribution, _DISTRIBUTION),
    "function": (object, ("__call__",)),
}
"""Kinds of objects that are asked, and what: the first that fits."""

TOLD = (
    *("n_actions", "full_support", "length", "has_density"),
    *("atoms", "table", "tables", "action_embedding"),
)
"""Attributes of them that are told, where they are no methods."""

MOST_BYTES = 1 << 31

_KINDS: dict[str, type[Any]] = {"map": dict, "list": list, "tuple": tuple}


class WireError(ValueError):
    """Bytes that are no message."""


class Wire:
    """One end of a connection.

    Parameters
    ----------
    descriptor : of the socket.
    pack, unpack : describe an object that is no plain value, as plain values, and make one of it.

    Attributes
    ----------
    known : arrays that both ends hold, so that their places are enough.
    """

    def __init__(
        self, descriptor: int, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]
    ) -> None:
        from multiprocessing.connection import Connection  # only where trials are sealed

        self._connection = Connection(descriptor)
        self._pack_object, self._unpack_object = pack, unpack
        self.known: list[np.ndarray[Any, Any]] = []

    def send(self, *message: Any, keep: bool = False) -> None:
        """Send a message; with ``keep``, both ends know its arrays from then on."""
        held = [*self.known]
        text = json.dumps([self._packed(message, held), keep]).encode()
        file, new = io.BytesIO(), held[len(self.known) :]
        np.savez(file, np.frombuffer(text, np.uint8), *new)
        self._connection.send_bytes(file.getbuffer())
        self.known += new if keep else []

    def receive(self) -> list[Any]:
        """Receive a message.

        Raises
        ------
        EOFError, OSError : the other end is gone, or sends too much.
        WireError : it is no message.
        """
        content = self._connection.recv_bytes(MOST_BYTES)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                if sum(one.file_size for one in file.zip.infolist()) > MOST_BYTES:
                    raise OverflowError
                text, *arrays = (file[one] for one in file.files)
            for place, one in enumerate(arrays):
                if one.dtype.kind == "b":  # a byte of another value is neither true nor false
                    arrays[place] = one.view(np.uint8) != 0
                arrays[place].flags.writeable = False
            body, keep = json.loads(text.tobytes())
            found = self._unpacked(body, dict(enumerate([*self.known, *arrays])))
            self.known += arrays if keep is True else []
            return [*found]
        # Of NumPy, of JSON, of texts that are nested without end.
        except Exception as exc:
            msg = f"no message: {type(exc).__name__}"
            raise WireError(msg) from exc

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    def _packed(self, value: Any, held: list[Any]) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, np.ndarray):
            places = [place for place, one in enumerate(held) if one is value]
            held += [] if places else [value]
            return {"array": places[0] if places else len(held) - 1}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop]}
        if isinstance(value, np.random.Generator):
            return {"stream": value.bit_generator.state}
        for kind, one in _KINDS.items():
            if isinstance(value, one):
                parts = value.items() if kind == "map" else value
                return {kind: [self._packed(part, held) for part in parts]}
        return {"object": self._packed(self._pack_object(value), held)}

    def _unpacked(self, value: Any, held: dict[int, Any]) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        ((kind, inner),) = value.items()
        match kind:
            case "array":
                return held[inner]
            case "slice":
                return slice(*inner)
            case "stream":
                bits = np.random.PCG64(0)
                bits.state = inner
                return np.random.Generator(bits)
            case "object":
                return self._unpack_object(self._unpacked(inner, held))
        return _KINDS[kind](self._unpacked(part, held) for part in inner)
