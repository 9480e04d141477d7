"""Recognize out-of-memory errors, which each library reports differently."""

from __future__ import annotations

import errno
import math

from ope_bench.plugins.exception_text import class_name

__all__ = ["is_out_of_memory", "limited_bytes", "ran_out_of_memory"]

_SIGNS = (
    "MemoryError",
    "Cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "DefaultCPUAllocator",
    # Python's own threads.
    "can't allocate lock",
    # OpenBLAS, which ends the process after this message.
    "Memory allocation still failed",
)

_LOADER_SIGNS = ("failed to map segment", "cannot map zero-fill pages")
"""The dynamic loader's messages, also used for libraries without permission to execute."""


def ran_out_of_memory(exc: BaseException) -> bool:
    """Return whether an exception, or one that caused it, is a failed allocation.

    >>> ran_out_of_memory(RuntimeError("std::bad_alloc"))
    True
    """
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if _is_shortage(link):
            return True
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return False


def is_out_of_memory(text: str) -> bool:
    """Return whether a library's message means that memory ran out."""
    signs = _SIGNS + (_LOADER_SIGNS if limited_bytes() < math.inf else ())
    return any(sign in text for sign in signs)


def limited_bytes() -> float:
    """Return the bytes that this process may allocate; infinite without a limit."""
    try:
        import resource
    except ImportError:
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


def _is_shortage(exc: BaseException) -> bool:
    # By name, so that torch need not be imported.
    if isinstance(exc, MemoryError) or class_name(exc) == "OutOfMemoryError":
        return True
    if isinstance(exc, OSError) and exc.errno == errno.ENOMEM:
        return True
    try:
        return isinstance(exc, Exception) and is_out_of_memory(str(exc))
    # A plugin's exception may raise in ``__str__``.
    except Exception:
        return False
