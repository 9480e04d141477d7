"""A worker's small memory: fits that several trials on the same data share.

A fit is seeded by its content, so its bits are the same whether found or made; its seconds are
charged to every trial that uses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

__all__ = ["Entry", "Found", "Memo"]


@dataclass(frozen=True)
class Entry:
    """A remembered value and what it cost to make.

    Parameters
    ----------
    value : the fit; None where there is an error.
    wall_seconds, cpu_seconds : what making it took, its own shared parts included.
    error : why there is no fit: whoever asks for it is to see that.
    origin : where the error came from; each raising of it would add to its own traceback.
    """

    value: Any
    wall_seconds: float
    cpu_seconds: float
    error: BaseException | None = None
    origin: TracebackType | None = None


@dataclass
class Found:
    """Seconds of what a fit found ready-made while it was made: they are its cost, too."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


class Memo:
    """Fits on one data set, by key."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def get(self, key: str, make: Callable[[Found], Any]) -> tuple[Entry, bool]:
        """The entry, and whether it was found rather than made now.

        Parameters
        ----------
        key : of the fit.
        make : fits, and notes what it found ready-made.
        """
        if key in self._entries:
            return self._entries[key], True
        found = Found()
        wall, cpu = time.perf_counter(), time.process_time()
        value = make(found)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        entry = Entry(value, wall + found.wall_seconds, cpu + found.cpu_seconds)
        self._entries[key] = entry
        return entry, False

    def keys(self) -> frozenset[str]:
        """Of the fits that are there."""
        return frozenset(self._entries)

    def put(self, key: str, entry: Entry) -> None:
        """Keep what was made elsewhere."""
        self._entries[key] = entry
