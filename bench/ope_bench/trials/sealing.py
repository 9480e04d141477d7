"""Sealing: the data of one trial are those of all, so that no trial can change them unnoticed.

A problem goes through one pickle whose arrays lie apart, in memory that only reads: in a worker
process in mapped pages, where a write past NumPy ends the process and thus its own trial; in the
caller's process, which must live on, in `bytes`, of which checksums are compared. Where a problem
has no pickle, its own arrays are compared.
"""

from __future__ import annotations

import contextlib
import gc
import io
import mmap
import os
import pickle
import tempfile
import types
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, partial
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import numpy as np

from ope_bench.contracts.data import Problem
from ope_bench.trials.patches import watch_classes

COPY_FIRST = "copy first; torch does not respect read-only arrays"
"""What helps an estimator that changes data in place."""

_ALIGNED = 64
"""Bytes at whose multiples arrays begin, as those that NumPy allocates for fast loops."""

MOST_COMPARED = 10_000
"""Items of a list or a dictionary up to which they are compared."""

_GONE = object()

_FORM = attrgetter("shape", "strides", "dtype")
"""What can be set of an array whose memory only reads."""

_LEAVES = (type, types.CodeType, types.ModuleType, str, bytes, int, float, np.generic)
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
        _ = sampled.row_units, sampled.logging_average
        try:
            self.problem, buffers = _copied(sampled, mapped)
        except (MemoryError, OSError):
            raise
        # Locks, connections and generators have no pickle; a plugin's class may raise anything.
        except Exception:
            self.problem, buffers = sampled, []
        self._inner: list[tuple[str, object, dict[Any, object]]] = []
        self._ordinary, self._others = list[object](), list[object]()
        self._forgiven: set[str] = set()
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        loose: dict[str, object] = {}
        for path, part, inside in _parts(self.problem):
            fixed = not (inside or isinstance(part, list | dict | set | deque))
            if not (fixed or isinstance(part, tuple | frozenset) or len(inside) > MOST_COMPARED):
                self._inner.append((path, part, inside))
                ordinary = "__class__" in inside and not _slots(part.__class__)
                (self._ordinary if ordinary else self._others).append(part)
            if isinstance(part, np.ndarray):
                arrays[path] = part
                if part.flags.writeable or part.dtype.hasobject or self.problem is sampled:
                    part.flags.writeable = False
                    loose[path] = part
            elif isinstance(part, bytearray) or hasattr(type(part), "__array__"):
                loose[path] = part
        watch_classes({type(part) for _, part, _ in self._inner})
        self.compared = bool(loose) or self.problem is sampled
        paths = {_address(array): path for path, array in arrays.items()}
        bare = ((paths.get(_address(one), "an array of a policy"), one) for one in buffers)
        self._sums = [(path, part, _checksum(part)) for path, part in (*bare, *loose.items())]
        self._arrays, self._forms = arrays, [*map(_FORM, arrays.values())]
        self._passed = self._now()

    def changes(self) -> dict[str, bool]:
        """Return the names of what has changed, each with whether a trial must have done it.

        A policy may have changed its private attributes itself, or what was None.
        """
        found = {path: True for path, part, before in self._sums if _checksum(part) != before}
        forms = [*map(_FORM, self._arrays.values())]
        if forms != self._forms:
            each = zip(self._arrays, forms, self._forms, strict=True)
            found |= {path: True for path, now, before in each if now != before}
        values, compared = self._now(), False
        for path, part, value, was in self._rebound(values):
            private = "._" in f".{path.removesuffix('.__class__')}"
            # What is made on first use stands among the attributes from then on.
            once = getattr(type(part), path.rpartition(".")[2], None)
            made = was is None or was is _GONE
            cache = made and (private or isinstance(once, cached_property))
            if cache or path in self._forgiven:
                continue
            compared = True
            # Two objects without a pickle are not known to be equal.
            if not 0 != _checksum(value) == _checksum(was):
                found[path] = not private and was is not None
        if not compared:
            # All that is new is what policies keep: later trials on the data add little to it.
            self._passed = values
        return found

    def forgive(self) -> None:
        """Compare nothing that has changed so far: policies change themselves when asked."""
        self._forgiven |= {path for path, *_ in self._rebound(self._now())}
        self._inner = [(path, part, _inside(part)) for path, part, _ in self._inner]
        self._passed = self._now()

    def _now(self) -> list[object]:
        """Return names and values of what lies in all objects, to be compared in one go."""
        held = [*map(vars, self._ordinary), *map(_inside, self._others)]
        values = chain.from_iterable(map(dict.values, held))
        return [*map(type, self._ordinary), *chain.from_iterable(held), *values]

    def _rebound(self, values: list[object]) -> Iterator[tuple[str, object, object, object]]:
        """Yield what is another object than before: path, owner, value, value before.

        Nothing where all values are those that have passed.
        """
        if len(values) == len(self._passed) and all(map(is_, values, self._passed)):
            return
        for path, part, before in self._inner:
            now = _inside(part)
            for name in now.keys() | before.keys():
                value, was = now.get(name, _GONE), before.get(name, _GONE)
                if value is not was:
                    yield f"{path}.{name}".lstrip("."), part, value, was


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
    sealed = _mapped([*inner.values()]) if mapped else [*map(bytes, inner.values())]
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


def _mapped(buffers: Sequence[memoryview]) -> list[Any]:
    """Return the buffers' contents in pages that are mapped to be read only."""
    made = getattr(os, "memfd_create", None)
    flags = getattr(os, "MFD_CLOEXEC", 0) | getattr(os, "MFD_ALLOW_SEALING", 0)
    with open(made("ope-bench", flags), "w+b") if made else tempfile.TemporaryFile() as file:
        ends = [0]
        for one in buffers:
            gap = -ends[-1] % _ALIGNED
            file.write(bytes(gap))
            file.write(one)
            ends.append(ends[-1] + gap + len(one))
        # No file without a byte can be mapped.
        file.write(b"\0")
        file.flush()
        # Nor can the file be written, or cut, by its descriptor, which the mapping keeps open.
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import fcntl  # not everywhere

            sizes = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, sizes | 16)  # F_SEAL_FUTURE_WRITE, without a name
        pages = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return [pages[end - len(one) : end] for end, one in zip(ends[1:], buffers, strict=True)]


def _parts(whole: object) -> Iterator[tuple[str, Any, dict[Any, object]]]:
    """Yield an object and what lies in its attributes, items and closures.

    Each with its path, and with what lies in itself.
    """
    waiting, seen = list[tuple[str, Any]]([("", whole)]), dict[int, object]()
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, _LEAVES) or id(one) in seen:
            continue
        # Kept, for an id is that of another object later.
        seen[id(one)] = one
        inside = _inside(one)
        yield path, one, inside
        prefix = f"{path}." if path else ""
        # The last is taken next; what two names hold has the first one's path.
        waiting += [(f"{prefix}{name}", value) for name, value in reversed(inside.items())]


def _inside(one: Any) -> dict[Any, Any]:
    """Return what lies in an object's attributes, items and closure, by name or place."""
    match one:
        case dict():
            return dict(one)
        case list() | tuple() | deque() | set() | frozenset():
            return dict(enumerate(one))
        case types.MethodType():
            return {"__self__": one.__self__}
        case types.FunctionType():
            cells = zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)
            # A cell may be empty.
            inner = {name: value for name, cell in cells for value in gc.get_referents(cell)}
            given = (*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values())
            return {"__code__": one.__code__, **inner, **dict(enumerate(given))}
        case partial():
            return dict(enumerate((one.func, *one.args, *one.keywords.values())))
    held, slots = getattr(one, "__dict__", None), _slots(one.__class__)
    if not (slots or isinstance(held, dict)):
        return {}
    values = {name: getattr(one, name, _GONE) for name in slots}
    return {"__class__": type(one), **(held or {}), **values}


@cache
def _slots(cls: type) -> list[str]:
    named = [one.__dict__.get("__slots__", ()) for one in cls.__mro__]
    return [name for one in named for name in ((one,) if isinstance(one, str) else one)]


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
