"""Data frames that pandas pickled, read without pandas and without running what they contain.

A pickle may call any function. This reader knows the dozen names of which a data frame of plain
columns consists, and refuses all others.
"""

from __future__ import annotations

import io
import lzma
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_bench import DataFileError, Table
from ope_environments.tables.array_table import array_table

__all__ = ["read_pickled_frame"]

Values = npt.NDArray[Any]

LARGEST = 1 << 28
"""Most bytes of an unpacked file."""


def read_pickled_frame(path: Path) -> Table:
    """Read a data frame from a pickle that is compressed by xz.

    Raises
    ------
    DataFileError : the file is damaged, or contains anything but plain columns.
    """
    try:
        unpacker = lzma.LZMADecompressor()
        data = unpacker.decompress(path.read_bytes(), max_length=LARGEST)
        if not unpacker.eof:
            raise DataFileError(path, "is damaged: it ends early, or is larger than any trial")
        frame = _Reader(io.BytesIO(data), path).load()
        columns = _columns(frame)
    except DataFileError:
        raise
    except lzma.LZMAError as exc:
        raise DataFileError(path, f"is not compressed by xz, or damaged: {exc}") from exc
    except OSError as exc:
        raise DataFileError(path, f"cannot be read: {exc.strerror or exc}") from exc
    except Exception as exc:
        what = f"is not a pickled data frame, or damaged: {type(exc).__name__}: {exc}"
        raise DataFileError(path, what.splitlines()[0]) from exc
    return array_table(path, columns)


class _Reader(pickle.Unpickler):
    """An unpickler that makes plain stand-ins of pandas' classes, and nothing else."""

    def __init__(self, stream: io.BytesIO, path: Path) -> None:
        super().__init__(stream)
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a name; refuse names that no data frame needs."""
        if name in _KNOWN and module.partition(".")[0] in ("pandas", "numpy", "builtins"):
            return _KNOWN[name]
        raise DataFileError(self._path, f"contains {module}.{name}; expected a plain data frame")


class _Built:
    """An object of pandas: what it was made with."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _block(values: Values, place: Any, _dimensions: int) -> tuple[Values, Any]:
    return values, place


def _index(_kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    return parts


def _from_buffer(buffer: bytes, dtype: np.dtype[Any], shape: Any, order: Any) -> Values:
    return np.frombuffer(buffer, dtype=dtype).reshape(shape, order=order)


def _empty_array(_kind: Any, shape: tuple[int, ...], _dtype: bytes) -> Values:
    return np.empty(shape, dtype=object)


_KNOWN: dict[str, Any] = {
    "DataFrame": _Built,
    "BlockManager": _Built,
    "_unpickle_block": _block,
    "_new_Index": _index,
    "Index": None,
    "RangeIndex": None,
    "ndarray": None,
    "_frombuffer": _from_buffer,
    "_reconstruct": _empty_array,
    "dtype": np.dtype,
    "slice": slice,
}


def _columns(frame: Any) -> dict[str, Values]:
    blocks, axes = frame.state["_mgr"].arguments
    names = [str(name) for name in axes[0]["data"]]
    found: dict[str, Values] = {}
    for values, place in blocks:
        which = range(len(names))[place] if isinstance(place, slice) else place
        for k, column in zip(which, values, strict=True):
            found[names[k]] = _plain(column)
    return {name: found[name] for name in names}


def _plain(column: npt.NDArray[Any]) -> Values:
    """Return numbers as float64, and words as objects, empty where missing."""
    if column.dtype != object:
        return column.astype(np.float64)
    words = ["" if not isinstance(value, str) else value for value in column]
    return np.array(words, dtype=object)
