"""Describe exceptions of plugins, and recognize those that mean too little memory.

The class of an exception may be a plugin's, whose methods say nothing or raise.
"""

from __future__ import annotations

import errno
import math
import traceback


def class_name(exc: BaseException) -> str:
    """Return the name of an exception's class, whatever its metaclass says.

    >>> class_name(KeyError())
    'KeyError'
    """
    return str(type.__dict__["__name__"].__get__(type(exc)))


def message_of(exc: BaseException) -> str:
    """Return an exception's message, or that it cannot be read."""
    try:
        return str(exc)
    except Exception as failure:
        return f"(its message cannot be read: {class_name(failure)})"


def traceback_of(exc: BaseException) -> str:
    """Return an exception's traceback, or that it cannot be read."""
    try:
        return "".join(traceback.format_exception(exc))
    # Formatting reads attributes of the exception and of its class.
    except Exception as failure:
        return f"(its traceback cannot be read: {class_name(failure)})"


# Each library reports in its own words that memory ran out.
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
        # By name, so that torch need not be imported.
        if isinstance(link, MemoryError) or class_name(link) == "OutOfMemoryError":
            return True
        if isinstance(link, OSError) and link.errno == errno.ENOMEM:
            return True
        if isinstance(link, Exception) and is_out_of_memory(message_of(link)):
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
