"""Per-worker cache of nuisance fits, shared by trials on the same data.

A fit's random stream derives from its description, so a cached fit and a new one agree bit for
bit; its seconds are charged to every trial that uses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

__all__ = ["CachedFit", "ReusedCost", "FitCache"]


@dataclass(frozen=True)
class CachedFit:
    """A cached fit and the seconds that it took.

    Parameters
    ----------
    value : the fit; None where there is an error.
    wall_seconds, cpu_seconds : time of the fit, without the fits that it used.
    error : why there is no fit; raised in every trial that requests it.
    origin : traceback of the error, kept apart because each raise would extend the error's own.
    inner : keys of all fits that it used, and that these used.
    """

    value: Any
    wall_seconds: float
    cpu_seconds: float
    error: BaseException | None = None
    origin: TracebackType | None = None
    inner: frozenset[str] = frozenset()


@dataclass
class ReusedCost:
    """Seconds that cached fits would have cost; charged to the trial that reused them."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


class FitCache:
    """Cached fits on one data set, by key."""

    def __init__(self) -> None:
        self._entries: dict[str, CachedFit] = {}

    def get(self, key: str, make: Callable[[set[str]], Any]) -> CachedFit:
        """Return the entry of a key, made now if there is none.

        Parameters
        ----------
        key : identifies the fit.
        make : makes the fit, and adds the keys of the fits that it used to its argument.
        """
        if key in self._entries:
            return self._entries[key]
        before, inner = self.keys(), set[str]()
        wall, cpu = time.perf_counter(), time.process_time()
        value = make(inner)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        made = self.cost(inner - before)
        self._entries[key] = CachedFit(
            value, wall - made.wall_seconds, cpu - made.cpu_seconds, inner=frozenset(inner)
        )
        return self._entries[key]

    def cost(self, keys: Iterable[str]) -> ReusedCost:
        """Return the seconds of some fits together."""
        entries = [self._entries[key] for key in keys]
        return ReusedCost(
            sum(entry.wall_seconds for entry in entries),
            sum(entry.cpu_seconds for entry in entries),
        )

    def keys(self) -> frozenset[str]:
        """Return the keys of all cached fits."""
        return frozenset(self._entries)

    def put(self, key: str, entry: CachedFit) -> None:
        """Store a fit that was made elsewhere."""
        self._entries[key] = entry
