"""Measure the resident memory of workers and their descendants, at a bounded cost."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict

__all__ = ["MemoryWatch"]

LEAST_PERIOD = 0.05
"""Seconds between two searches for descendants."""

PERIODS_A_SEARCH = 300
"""A search took at most one part in so many of the coordinator's time."""


class MemoryWatch:
    """Find workers of this process that use too much memory.

    A worker's memory is read at every call. To find its descendants psutil reads the parent of
    every process of the machine, so that is done less often where it takes long.
    """

    def __init__(self) -> None:
        # Imported only where memory is limited, because it takes some 10 ms.
        import psutil

        self._psutil = psutil
        self._coordinator = psutil.Process()
        self._trees: dict[int, list[psutil.Process]] = {}
        self._next_search = 0.0

    def excess(self, worker: int, limit: int) -> int | None:
        """Return the resident bytes of a worker and its descendants where they exceed a limit.

        Parameters
        ----------
        worker : process id of a child of this process.
        limit : bytes.
        """
        if time.monotonic() >= self._next_search:
            self._search()
        if self._resident(worker) <= limit:
            return None
        # Since the search a descendant may have ended, and its id may be that of another process.
        self._search()
        used = self._resident(worker)
        return used if used > limit else None

    def _resident(self, worker: int) -> int:
        total = 0
        with contextlib.suppress(self._psutil.Error):
            if worker not in self._trees:
                self._trees[worker] = [self._psutil.Process(worker)]
        for process in self._trees.get(worker, ()):
            with contextlib.suppress(self._psutil.Error):
                total += process.memory_info().rss
        return total

    def _search(self) -> None:
        """Find every worker's descendants: one pass over all processes serves all workers."""
        begun = time.monotonic()
        descendants = self._coordinator.children(recursive=True)
        parents: dict[int, int] = {}
        for process in descendants:
            with contextlib.suppress(self._psutil.Error):
                parents[process.pid] = process.ppid()
        trees = defaultdict(list)
        for process in descendants:
            worker = process.pid
            while (parent := parents.get(worker, 0)) in parents:
                worker = parent
            trees[worker].append(process)
        self._trees = dict(trees)
        ended = time.monotonic()
        self._next_search = ended + max(LEAST_PERIOD, PERIODS_A_SEARCH * (ended - begun))
