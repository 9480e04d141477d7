"""A worker's small memory: fits that several trials on the same data share.

A fit is seeded by its content, so its bits are the same whether found or made; its seconds are
charged to every trial that uses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Entry", "Memo"]


@dataclass(frozen=True)
class Entry:
    """A remembered value and what it cost to make.

    Parameters
    ----------
    value : the fit.
    wall_seconds, cpu_seconds : what making it took, its own shared parts included.
    """

    value: Any
    wall_seconds: float
    cpu_seconds: float


class Memo:
    """Fits on one data set, by key."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def get(self, key: str, make: Callable[[], Any]) -> tuple[Entry, bool]:
        """The entry, and whether it was found rather than made now."""
        if key in self._entries:
            return self._entries[key], True
        wall, cpu = time.perf_counter(), time.process_time()
        value = make()
        entry = Entry(value, time.perf_counter() - wall, time.process_time() - cpu)
        self._entries[key] = entry
        return entry, False
