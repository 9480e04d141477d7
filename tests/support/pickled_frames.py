"""Pickles as pandas 2 writes them of data frames, made without pandas."""

from __future__ import annotations

import lzma
import pickle
import sys
import types
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

__all__ = ["write_frame"]


class DataFrame:
    """Its state is the manager of its blocks."""

    def __init__(self, manager):
        self.manager = manager

    def __getstate__(self) -> dict[str, Any]:
        return {"_mgr": self.manager, "_typ": "dataframe", "_metadata": [], "attrs": {}}


class BlockManager:
    """A block of numbers, one of words, and the two axes."""

    def __init__(self, blocks, axes):
        self.blocks, self.axes = blocks, axes

    def __reduce__(self):
        return BlockManager, (self.blocks, self.axes)


class Index:
    """Names."""


def _unpickle_block(values, place, dimensions):
    raise NotImplementedError


def _new_Index(cls, parts):  # noqa: N802  the name in pandas
    raise NotImplementedError


class Block:
    """Columns of one type."""

    def __init__(self, values, place):
        self.parts = values, place, 2

    def __reduce__(self):
        return _unpickle_block, self.parts


class Named(Index):
    """An index that pickles as pandas' do."""

    def __init__(self, names):
        self.names = names

    def __reduce__(self):
        return _new_Index, (Index, {"data": np.array(self.names, dtype=object), "name": None})


HOMES: dict[str, list[Any]] = {
    "pandas.core.frame": [DataFrame],
    "pandas.core.internals.managers": [BlockManager],
    "pandas._libs.internals": [_unpickle_block],
    "pandas.core.indexes.base": [Index, _new_Index],
}


@contextmanager
def _as_pandas():
    """Let pickle find the stand-ins under the names of pandas."""
    modules = {}
    for name, members in HOMES.items():
        parts = name.split(".")
        for k in range(1, len(parts) + 1):
            modules.setdefault(".".join(parts[:k]), types.ModuleType(".".join(parts[:k])))
        for member in members:
            member.__module__ = name
            setattr(modules[name], member.__name__, member)
    with mock.patch.dict(sys.modules, modules):
        yield


def write_frame(path: Path, columns: Mapping[str, Any]) -> None:
    """Write numbers and words as an xz-compressed pickle of a data frame.

    Parameters
    ----------
    columns : lists or arrays; those of words are objects, with None where missing.
    """
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    names = list(arrays)
    blocks = []
    for wanted in (False, True):
        place = [k for k, name in enumerate(names) if (arrays[name].dtype == object) == wanted]
        if place:
            dtype = object if wanted else np.float64
            values = np.array([arrays[names[k]] for k in place], dtype=dtype)
            blocks.append(Block(values, np.array(place)))
    frame = DataFrame(BlockManager(tuple(blocks), [Named(names), Named(["0"])]))
    with _as_pandas():
        data = pickle.dumps(frame, protocol=5)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(data))
