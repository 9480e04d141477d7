"""What goes to stdout and what to stderr."""

from __future__ import annotations

import contextlib
import enum
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = [
    "Format",
    "document",
    "note",
    "plain",
    "reader_has_left",
    "use_colour",
    "width",
    "write",
]


class Format(enum.StrEnum):
    """How data are printed."""

    TEXT = "text"
    JSON = "json"


def write(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def reader_has_left() -> None:
    """After a BrokenPipeError, as behind ``| head``: what is buffered must not fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 80


def use_colour() -> bool:
    """Whether stdout is a terminal that may be coloured (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@contextlib.contextmanager
def document(wanted: Format = Format.JSON) -> Iterator[Callable[[Any], None]]:
    """Keep stdout for the one JSON document that is given to what this yields.

    Whatever else is written to stdout meanwhile goes to stderr: by plugins at import, by C code
    and by child processes too. With another format nothing is redirected, and nothing kept.
    """
    if wanted is not Format.JSON:
        yield lambda _: None
        return
    kept: list[Any] = []
    real = sys.stdout
    real.flush()
    sys.stderr.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield kept.append
    finally:
        os.dup2(descriptor, 1)
        os.close(descriptor)
    for one in kept:
        real.write(json.dumps(plain(one), allow_nan=False, ensure_ascii=False) + "\n")
        real.flush()


def plain(value: Any) -> Any:
    """A value as JSON has it; a number that is not finite is null."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    # Scalars of numpy.
    return plain(value.item()) if hasattr(value, "item") else str(value)
