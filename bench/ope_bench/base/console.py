"""Output to stdout and stderr, as text or as one JSON document, safe to print."""

from __future__ import annotations

import codecs
import contextlib
import enum
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ope_bench.base.canonical import plain
from ope_bench.base.printable import json_printable, printable


class Format(enum.StrEnum):
    """Output format of data."""

    TEXT = "text"
    JSON = "json"


def write(text: str) -> None:
    """Print a line to stdout."""
    sys.stdout.write(printable(text, colors=use_color()) + "\n")


def note(text: str) -> None:
    """Print a line to stderr."""
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def width() -> int:
    """Return the number of columns of the terminal; 80 without one."""
    return shutil.get_terminal_size().columns


def use_color() -> bool:
    """Return whether stdout is a terminal that may be colored (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@contextlib.contextmanager
def json_stdout(output_format: str = Format.JSON) -> Iterator[Callable[[Any], None]]:
    """Reserve stdout for one JSON document, which the caller passes to the yielded function.

    All other output to stdout is redirected to stderr, including that of plugins at import, C code
    and child processes. With another format nothing is redirected, and the document is discarded.
    """
    if output_format != Format.JSON:
        yield lambda _: None
        return
    documents: list[Any] = []
    real = sys.stdout
    real.flush()
    sys.stderr.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield documents.append
    finally:
        os.dup2(descriptor, 1)
        os.close(descriptor)
    # An escape of `backslashreplace` is none of JSON.
    ascii_only = codecs.lookup(real.encoding or "utf-8").name != "utf-8"
    for item in documents:
        text = json.dumps(plain(item), allow_nan=False, ensure_ascii=ascii_only)
        real.write(json_printable(text) + "\n")
        real.flush()
