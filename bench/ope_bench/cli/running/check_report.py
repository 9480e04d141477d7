"""Results of checks as text: those that fail for one reason together, and a live line."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ope_bench.printable import printable

if TYPE_CHECKING:
    from ope_bench.testing import CheckResult

__all__ = ["LiveLine", "check_lines", "words_of"]

MARGIN = 18
NAMES_SHOWN = 3


def words_of(name: str) -> str:
    """Return the sentence that names a check."""
    return name.replace("check_", "", 1).replace("_", " ")


def check_lines(results: Sequence[CheckResult], width: int, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of a report: failures, those of one reason together, then skipped checks.

    Parameters
    ----------
    results : of the checks, in the order of running.
    width : columns of the terminal.
    verbose : show what passed, too.
    """
    reasons: dict[tuple[str, str], list[CheckResult]] = {}
    for one in results:
        if one.bad:
            reasons.setdefault((one.result, one.reason), []).append(one)
        elif verbose:
            yield from _lines(one.result, words_of(one.name), one.message, width)
    for (result, _), group in reasons.items():
        head = words_of(group[0].name)
        if len(group) > 1:
            result, head = f"{len(group)} {result}", f"for one reason: {_names(group, verbose)}"
        yield from _lines(result, head, group[0].message, width)
    if not verbose:
        for one in results:
            if one.result in ("skipped", "expected failure"):
                yield from _lines(one.result, f"{words_of(one.name)}: {one.message}", "", width)


def _names(group: Sequence[CheckResult], verbose: bool) -> str:
    words = [words_of(one.name) for one in group]
    if verbose or len(words) <= NAMES_SHOWN:
        return ", ".join(words)
    return f"{', '.join(words[:NAMES_SHOWN])} and {len(words) - NAMES_SHOWN} more"


def _lines(result: str, head: str, message: str, width: int) -> Iterator[str]:
    room = max(40, width) - MARGIN
    first, *rest = textwrap.wrap(printable(head), room) or [""]
    yield f"{result:>{MARGIN - 2}}  {first}"
    for line in [*rest, *textwrap.wrap(printable(message), room)]:
        yield " " * MARGIN + line


class LiveLine:
    """The check that runs, on the last line of a terminal; nothing elsewhere.

    Parameters
    ----------
    total : number of checks.
    width : columns of the terminal.
    """

    def __init__(self, total: int, width: int) -> None:
        self._total, self._width = total, width
        self._number = 0
        self._stream = sys.stderr
        self._shown = self._stream.isatty()

    def next(self, name: str) -> None:
        """Show the next check."""
        self._number += 1
        if self._shown:
            text = f"{self._number:>3}/{self._total}  {words_of(name)}"[: self._width - 1]
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
