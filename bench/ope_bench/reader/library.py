"""The one place that imports and calls Polars on data of unknown form."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from ope_bench.plugins.requirements import limited_bytes, ran_out_of_memory
from ope_bench.reader.mistakes import DataFileError

_ALLOCATOR = "_RJEM_MALLOC_CONF"
_LEAST_BYTES = 64 << 20


def library() -> Any:
    """Return Polars, which is imported when the first table is read."""
    if "polars" not in sys.modules:
        _require_memory()
    given = os.environ.get(_ALLOCATOR)
    try:
        import polars
    finally:
        # It sets this for its own allocator, which has read it by now. A trial that reads a table
        # would be said to change the environment of its process.
        if given is None:
            os.environ.pop(_ALLOCATOR, None)
    return polars


def _require_memory() -> None:
    """Raise a MemoryError where a limit leaves too little: threads of the library would hang.

    They wait for ever for one of them whose allocation failed, in its import already.
    """
    limit = limited_bytes()
    if limit < math.inf and limit - psutil.Process().memory_info().data < _LEAST_BYTES:
        msg = "no memory left to read a table"
        raise MemoryError(msg)


class LibraryRefusalError(Exception):
    """The library reads a file not, or not as what it was said to be."""


@contextlib.contextmanager
def guarded(path: Path | str) -> Iterator[None]:
    """Turn whatever the library raises into a `LibraryRefusalError`.

    A panic of its threads derives from BaseException, and is printed on the error output, which
    gets nothing else while the library works either.
    """
    _require_memory()
    try:
        with _panics_kept():
            yield
    except (DataFileError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as exc:
        if ran_out_of_memory(exc):
            raise MemoryError(str(exc)) from exc
        if isinstance(exc, OSError) and exc.errno is not None:
            what = f"cannot be read: {exc.strerror or exc}"
            raise DataFileError(path, what) from exc
        if not isinstance(exc, Exception) and type(exc).__module__.partition(".")[0] not in (
            "polars",
            "pyo3_runtime",
        ):
            raise
        reason = str(exc).strip().splitlines() or [type(exc).__name__]
        raise LibraryRefusalError(reason[0]) from exc


@contextlib.contextmanager
def _panics_kept() -> Iterator[None]:
    """Keep what is written on descriptor 2, and write it at the end if nothing was raised.

    Under a memory limit nothing is kept: the library's allocator says why it aborts the process,
    and whoever started it has that from there.
    """
    if limited_bytes() < math.inf:
        yield
        return
    try:
        sys.stderr.flush()
        saved = os.dup(2)
    except (OSError, ValueError, AttributeError):
        yield
        return
    with tempfile.TemporaryFile() as kept:
        try:
            os.dup2(kept.fileno(), 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        kept.seek(0)
        said = kept.read()
    if said:
        os.write(2, said)
