r"""Text from plugins, stores and files, made safe to print.

A terminal obeys escape sequences, and text whose direction is overridden reads otherwise than it
is.
"""

from __future__ import annotations

import re

__all__ = ["json_printable", "printable", "without_formula"]

_CONTROLS = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    # Marks, overrides and isolates of the direction of text; separators of lines; byte order.
    *(0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF),
    *range(0xD800, 0xE000),
)
_SHORT = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS}
_JSON = {code: f"\\u{code:04x}" for code in _CONTROLS}
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


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
        return text.translate(_SHORT)
    parts = _COLOR.split(text)
    # Every second part is a sequence.
    parts[::2] = [part.translate(_SHORT) for part in parts[::2]]
    return "".join(parts)


def json_printable(text: str) -> str:
    """Return a JSON document with control characters as JSON's escapes."""
    return text.translate(_JSON)


def without_formula(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet takes for a formula.

    A plugin's name or message may begin with ``=``; spreadsheets would compute it.

    >>> without_formula("=1+1"), without_formula("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
