"""What an exception says, where its class may be a plugin's and say nothing, or raise."""

from __future__ import annotations

import traceback

__all__ = ["class_name", "message_of", "traceback_of"]


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
