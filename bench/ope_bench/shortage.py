"""Whether a failure means that memory ran out: libraries say so in many ways."""

from __future__ import annotations

import errno
import math

__all__ = ["limited_bytes", "ran_out_of_memory", "tells_of_shortage"]

_SIGNS = (
    "MemoryError",
    "Cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "DefaultCPUAllocator",
    # OpenBLAS, which then ends the process.
    "Memory allocation still failed",
)

_LOADER_SIGNS = ("failed to map segment", "cannot map zero-fill pages")
"""The dynamic loader's, which says the same of libraries that it may not execute."""


def ran_out_of_memory(exc: BaseException) -> bool:
    """Whether an exception, or one that led to it, is a failed allocation.

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


def tells_of_shortage(text: str) -> bool:
    """Whether what a library said means that memory ran out."""
    signs = _SIGNS + (_LOADER_SIGNS if limited_bytes() < math.inf else ())
    return any(sign in text for sign in signs)


def limited_bytes() -> float:
    """What this process may allocate; infinite where nothing limits it."""
    try:
        import resource
    except ImportError:
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


def _is_shortage(exc: BaseException) -> bool:
    # By name, because torch is imported only by those who use it.
    if isinstance(exc, MemoryError) or type(exc).__name__ == "OutOfMemoryError":
        return True
    if isinstance(exc, OSError) and exc.errno == errno.ENOMEM:
        return True
    try:
        return isinstance(exc, Exception) and tells_of_shortage(str(exc))
    # A plugin's exception may fail even here.
    except Exception:
        return False
