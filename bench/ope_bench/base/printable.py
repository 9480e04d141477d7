r"""Text from plugins, stores and files, made safe to print, and streams made safe to write.

A terminal obeys escape sequences, and text whose direction is overridden reads otherwise than it
is.
"""

from __future__ import annotations

import io
import os
import re
import sys
from functools import cache
from typing import Any, TextIO

_CONTROLS = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    # Marks, overrides and isolates of the direction of text; separators of lines; byte order.
    *(0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF),
    *range(0xD800, 0xE000),
)
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


@cache
def _escapes(*, json: bool = False) -> dict[int, str]:
    """Return the escapes of control characters, made when the first text is printed."""
    return {
        code: f"\\u{code:04x}" if json or code > 0xFF else f"\\x{code:02x}" for code in _CONTROLS
    }


def printable(text: str, *, colors: bool = False) -> str:
    r"""Return a text with its control characters as escapes that can be read.

    Parameters
    ----------
    text : line ends and tabs stay.
    colors : sequences that only set colors and weights stay, too.

    >>> printable("a\x1b]0;title\x07b")
    'a\\x1b]0;title\\x07b'
    """
    if not colors:
        return text.translate(_escapes())
    parts = _COLOR.split(text)
    # Every second part is a sequence.
    parts[::2] = [part.translate(_escapes()) for part in parts[::2]]
    return "".join(parts)


def json_printable(text: str) -> str:
    """Return a JSON document with control characters as JSON's escapes."""
    return text.translate(_escapes(json=True))


def without_formula(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet takes for a formula.

    A plugin's name or message may begin with ``=``; spreadsheets would compute it.

    >>> without_formula("=1+1"), without_formula("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


# The reader of stdout and stderr may end, and may not read UTF-8.


def replace_standard_streams() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that a command need not guard.

    What a closed pipe (``| head``) does not take is discarded, so that the command ends with its
    own exit code. What the encoding lacks is written as an escape.
    """
    sys.stdout, sys.stderr = _safe(sys.stdout), _safe(sys.stderr)


class _Descriptor(io.FileIO):
    """A descriptor that is written without a BrokenPipeError."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as exc:
            # The buffer keeps what could not be written, and is flushed again at exit.
            with open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self.fileno())
            if not isinstance(exc, BrokenPipeError):
                raise
            return len(data)


def _safe(stream: Any) -> TextIO:
    if stream is None:  # the shell has closed the descriptor
        return open(os.devnull, "w", encoding="utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        # Unbuffered (python -u), what is written is whole lines here.
        line_buffering=stream.line_buffering or stream.write_through,
    )
