"""Sealing: the data of one trial are those of all, so that no trial can change them unnoticed.

A problem goes through one pickle whose arrays lie apart, in memory that only reads: in a worker
process in mapped pages, where a write past NumPy ends the process and thus its own trial; in the
caller's process, which must live on, in `bytes`, of which checksums are compared. Where a problem
has no pickle, its own arrays are compared.
"""

from __future__ import annotations

import gc
import io
import mmap
import os
import pickle
import tempfile
import types
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ope_bench.contracts.data import Problem
from ope_bench.trials.patches import watch_classes

COPY_FIRST = "copy first; torch does not respect read-only arrays"
"""What helps an estimator that changes data in place."""

_ALIGNED = 64
"""Bytes at whose multiples arrays begin, as those that NumPy allocates for fast loops."""

_GONE = object()

_LEAVES = (type, types.ModuleType, str, bytes, int, float, np.generic)
"""Types of values within which no data of a problem lie."""


class Seal:
    """A problem that trials share, and whether they have changed it.

    Parameters
    ----------
    sampled : the problem as its environment made it.
    mapped : in pages that the process cannot write.

    Attributes
    ----------
    problem : a copy in memory that only reads, or the same object where that is impossible.
    compared : parts of the data are compared only, for they cannot lie in such memory.
    """

    def __init__(self, sampled: Problem, *, mapped: bool = False) -> None:
        # Derived data of all trials: computed now, they are sealed too.
        _ = sampled.row_units
        try:
            self.problem, buffers = _copied(sampled, mapped)
        except (MemoryError, OSError):
            raise
        # Locks, connections and generators have no pickle; a plugin's class may raise anything.
        except Exception:
            self.problem, buffers = sampled, []
        self._attributes: list[tuple[str, dict[Any, Any], Any, object]] = []
        self._objects: list[tuple[str, object, type, set[str]]] = []
        paths: dict[int, str] = {}
        loose: list[tuple[str, object]] = []
        for path, part in _parts(self.problem):
            if path and hasattr(part, "__dict__"):
                self._objects.append((path, part, type(part), set(vars(part))))
            if isinstance(part, np.ndarray):
                paths[_address(part)] = path
                if part.flags.writeable or part.dtype.hasobject or self.problem is sampled:
                    part.flags.writeable = False
                    loose.append((path, part))
            elif isinstance(part, bytearray) or hasattr(type(part), "__array__"):
                loose.append((path, part))
            elif path and "._" not in f".{path}":
                held = _held(part)
                # Private values may be caches; None, one that is made on first use.
                self._attributes += [
                    (f"{path}.{name}", held, name, value)
                    for name, value in held.items()
                    if value is not None and not str(name).startswith("_")
                ]
        watch_classes({cls for _, _, cls, _ in self._objects})
        self.compared = bool(loose) or self.problem is sampled
        bare = ((paths.get(_address(one), "an array of a policy"), one) for one in buffers)
        self._sums = [(path, part, _checksum(part)) for path, part in (*bare, *loose)]

    def changes(self) -> list[str]:
        """Return the names of the arrays and attributes that have changed."""
        arrays = [path for path, part, before in self._sums if _checksum(part) != before]
        held = ((path, now.get(name, _GONE), was) for path, now, name, was in self._attributes)
        arrays += [
            path for path, now, was in held if now is not was and _checksum(now) != _checksum(was)
        ]
        for path, part, cls, names in self._objects:
            if type(part) is not cls:
                arrays.append(f"{path}.__class__")
            # What a class computes once stands among the attributes from then on.
            arrays += [
                f"{path}.{name}"
                for name in vars(part).keys() - names
                if name[0] != "_" and not isinstance(getattr(cls, name, None), cached_property)
            ]
        return arrays

    def forgive(self) -> None:
        """Compare no attributes that have changed so far: policies change them when asked."""
        self._attributes = [one for one in self._attributes if one[1].get(one[2]) is one[3]]
        self._objects = [
            (path, part, cls, names | set(vars(part))) for path, part, cls, names in self._objects
        ]


def _copied(sampled: Problem, mapped: bool) -> tuple[Problem, list[bytes]]:
    """Return a copy whose arrays only read, and their buffers unless they are mapped pages."""
    pickled, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _pickler()(pickled, 5, buffers.append).dump(sampled)
    raw = [buffer.raw() for buffer in buffers]
    # Two arrays of the same memory, such as contexts that both samples share, stay one.
    places = [(_address(one), len(one)) for one in raw]
    found: dict[Any, Any] = dict(zip(places, raw, strict=True))
    # Pages of a file that is mapped to be read, as those of a stored log, are sealed already.
    inner = {place: one for place, one in found.items() if not (mapped and _is_sealed(one))}
    sealed = (_mapped if mapped else _in_bytes)([*inner.values()])
    found |= zip(inner, sealed, strict=True)
    copy: Problem = pickle.loads(  # noqa: S301  just made
        pickled.getvalue(), buffers=[found[place] for place in places]
    )
    return copy, [] if mapped else sealed


def _is_sealed(buffer: memoryview) -> bool:
    base = buffer.obj
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, mmap.mmap) and memoryview(base).readonly


@cache
def _pickler() -> Any:
    import cloudpickle  # only where trials run

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Makes arrays contiguous, for only such have a buffer apart from the pickle."""

        def reducer_override(self, obj: Any) -> Any:
            if not isinstance(obj, np.ndarray) or type(obj).__reduce__ is not _REDUCE:
                return super().reducer_override(obj)
            if type(obj) is not np.ndarray:
                cls = np.ndarray if isinstance(obj, np.memmap) else type(obj)
                held = getattr(obj, "__dict__", {}) if cls is type(obj) else {}
                return _viewed, (cls, obj.view(np.ndarray), held)
            if obj.flags.forc or obj.dtype.hasobject:
                return NotImplemented
            once = obj[tuple(slice(None if step else 1) for step in obj.strides)]
            core = np.ascontiguousarray(once)
            if core.shape == obj.shape:
                return core.__reduce_ex__(5)
            return np.broadcast_to, (core, obj.shape)

    return Pickler


_REDUCE = np.ndarray.__reduce__


def _viewed(cls: Any, array: np.ndarray[Any, Any], held: dict[str, Any]) -> Any:
    """Return an array of a subclass, which NumPy would copy into a pickle without attributes."""
    made = array.view(cls)
    if held:
        vars(made).update(held)
    return made


def _address(buffer: Any) -> int:
    """Return where the memory of an array or a buffer begins."""
    array = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer or b"\0", np.uint8)
    return int(array.__array_interface__["data"][0])


def _in_bytes(buffers: Sequence[memoryview]) -> list[Any]:
    return [bytes(one) for one in buffers]


def _mapped(buffers: Sequence[memoryview]) -> list[Any]:
    """Return the buffers' contents in pages that are mapped to be read only."""
    made = getattr(os, "memfd_create", None)
    with open(made("ope-bench"), "w+b") if made else tempfile.TemporaryFile() as file:
        ends = []
        for one in buffers:
            file.seek(-(-file.tell() // _ALIGNED) * _ALIGNED)
            file.write(one)
            ends.append(file.tell())
        file.truncate(max(1, file.tell()))
        pages = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return [pages[end - len(one) : end] for end, one in zip(ends, buffers, strict=True)]


def _parts(whole: object) -> Iterator[tuple[str, object]]:
    """Yield an object and what lies in its attributes, items and closures, each with its path."""
    waiting, seen = [("", whole)], dict[int, object]()
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, _LEAVES) or id(one) in seen:
            continue
        # Kept, for an id is that of another object later.
        seen[id(one)] = one
        yield path, one
        inner: Iterable[tuple[object, object]]
        match one:
            case list() | tuple() | deque() | set() | frozenset():
                inner = enumerate(one)
            case types.MethodType():
                inner = [("__self__", one.__self__)]
            case types.FunctionType():
                cells = zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)
                # A cell may be empty.
                inner = [(name, value) for name, cell in cells for value in gc.get_referents(cell)]
                inner += enumerate(
                    (*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values())
                )
            case partial():
                inner = enumerate((one.func, *one.args, *one.keywords.values()))
            case _:
                inner = [*_held(one).items(), *_in_slots(one)]
        waiting += [(f"{path}.{name}".lstrip("."), value) for name, value in inner]


def _held(one: object) -> dict[Any, Any]:
    """Return the dictionary of an object's attributes, or a dictionary itself."""
    held = one if isinstance(one, dict) else getattr(one, "__dict__", None)
    return held if isinstance(held, dict) else {}


def _in_slots(one: object) -> Iterator[tuple[str, object]]:
    for cls in type(one).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            value = getattr(one, name, _GONE)
            if value is not _GONE:
                yield name, value


def _checksum(part: Any) -> int:
    """Return the CRC32 of an array's memory, or of an object's pickle; 0 where it has none."""
    if isinstance(part, bytes | bytearray):
        return zlib.crc32(part)
    import cloudpickle

    try:
        # A tensor that records gradients is no array as it is.
        part = part.detach() if hasattr(part, "detach") else part
        array = np.ascontiguousarray(part)
        return zlib.crc32(cloudpickle.dumps(part) if array.dtype.hasobject else array.tobytes())
    # Some objects have no pickle.
    except Exception:
        return 0
