"""Messages from a process that is not trusted: what would reach into this one is no message."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ope_bench.base.errors import DataError, PositivityViolation
from ope_bench.contracts.embeddings import FactoredEmbedding
from ope_bench.contracts.policies import DiscretePolicy
from ope_bench.contracts.random import DataSeed
from ope_bench.trials.wire import Peer, WireError

ENDS = tuple[Peer, socket.socket]


@pytest.fixture
def ends() -> Iterator[ENDS]:
    """An end that trusts nobody, and the socket of the other."""
    ours, theirs = socket.socketpair()
    peer = Peer(ours.detach(), (DataSeed("world", 0, 0, salt="hush"), ("estimator",)))
    with theirs:
        yield peer, theirs
    peer._reader.close()
    peer._socket.close()


def answered(ends: ENDS, *message: Any, arrays: bytes = b"") -> Any:
    peer, other = ends
    text = json.dumps([*message]).encode()
    other.sendall(len(text).to_bytes(8, "big") + len(arrays).to_bytes(8, "big") + text + arrays)
    return peer.answer()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("M8[s/0]", [1]),
        ("m8[s]", [1]),
        ("U0", [-1]),
        ("S0", [-1]),
        ("<f8", [-1]),
        ("<f8", [True]),
        ("<f8", [0.0]),
        ("O", [1]),
        ("V8", [1]),
        ("<f8,<f8", [1]),
    ],
)
def test_an_array_of_another_type_or_size_is_no_message(
    ends: ENDS, name: str, shape: list[Any]
) -> None:
    """Some end the process in NumPy's own code, where no exception can be caught."""
    with pytest.raises(WireError):
        answered(ends, "return", {"array": [name, shape, "C"]}, [], arrays=b"\0" * 64)


def test_plain_arrays_arrive(ends: ENDS) -> None:
    found = answered(ends, "return", {"array": ["<f8", [2], "C"]}, [], arrays=b"\0" * 16)
    assert type(found) is np.ndarray
    assert found.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("part", ["kind", "message", "output", "trace"])
def test_an_answer_names_no_object_of_this_end(ends: ENDS, part: str) -> None:
    """Its text would have the salt of the seeds."""
    told = {"kind": "ValueError", "message": "", part: {"yours": 0}}
    with pytest.raises(WireError):
        answered(ends, "raise", {"map": [*map(list, told.items())]})
    assert answered(ends, "return", {"yours": 0}, []) == {"yours": 0}
    assert "hush" not in repr(DataSeed("world", 0, 0, salt="hush"))


def test_an_exception_is_words_that_can_be_printed(ends: ENDS) -> None:
    told = {"kind": "Od\x1b[31md", "message": "said"}
    with pytest.raises(Exception, match="said") as caught:
        answered(ends, "raise", {"map": [*map(list, told.items())]})
    assert type(caught.value).__name__ == "Od[31md"


def test_a_fallback_that_no_float_holds_is_no_number() -> None:
    with pytest.raises(DataError, match="fallback"):
        PositivityViolation("none", fallback=10**400)


class Slices(DiscretePolicy):
    """Asks for rows that do not exist, and then for the memory that they left."""

    def __init__(self, *rows: slice) -> None:
        self.n_actions, self.rows = 3, rows

    def table(self, context: Any) -> Any:
        return np.full((len(context), 3), 1 / 3)

    def contract(self, context: Any, values: Any) -> Any:
        found = None
        for rows in self.rows:
            with contextlib.suppress(IndexError):
                found = values(rows)
        return found


@pytest.mark.parametrize(
    "rows",
    [
        (slice(0, 50), slice(1, 0)),
        (slice(1, 0),),
        (slice(-2, 1),),
        (slice(0, 50),),
        (slice(0, float("nan")),),
    ],
)
def test_rows_that_do_not_exist_have_no_products(rows: tuple[slice, ...]) -> None:
    tables = [np.full((3, 2), 0.5), np.full((3, 2), 0.5)]
    embedding = FactoredEmbedding(tables)
    with pytest.raises(DataError, match="rows"):
        embedding.marginal(Slices(*rows), np.zeros((4, 1)), np.zeros((4, 2)))
