"""One line on stderr that says how far an evaluation is."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Self

from ope_bench.trials.status import Status
from ope_bench.units import format_duration

__all__ = ["Progress"]

SECONDS_BETWEEN = 0.2
SILENT_SECONDS = 1.0


class Progress:
    """The number of finished trials, written over itself; a carriage return works in notebooks.

    Parameters
    ----------
    total : number of trials.
    shown : None for terminals and notebooks only, and after a second.
    """

    def __init__(self, total: int, shown: bool | None = None) -> None:
        self.total = total
        self.shown = _is_watched() if shown is None else shown
        self._begun = time.monotonic()
        self._next = self._begun + (SILENT_SECONDS if shown is None else 0.0)
        self._status: Counter[Status] = Counter()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._width:
            self._write()
            sys.stderr.write("\n")

    def add(self, status: Status) -> None:
        """Count one more finished trial."""
        self._status[status] += 1
        if self.shown and time.monotonic() >= self._next:
            self._write()
            self._next = time.monotonic() + SECONDS_BETWEEN

    def _write(self) -> None:
        counts = "  ".join(f"{word.value} {n}" for word, n in self._status.items())
        spent = format_duration(time.monotonic() - self._begun)
        line = f"{self._status.total()}/{self.total} trials  {counts}  {spent}"
        sys.stderr.write(f"\r{line:<{self._width}}")
        sys.stderr.flush()
        self._width = len(line)


def _is_watched() -> bool:
    """Return whether somebody reads along: a terminal, or the kernel of a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
