"""Processes that workers and trials start: found, measured, and ended with them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


# Measure the resident memory of workers and their descendants, at a bounded cost.

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


# Process clean-up: workers end with the coordinator, child processes with their trial.

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

PATIENCE = 10.0
"""Seconds to wait for the end of killed processes; one that waits for a device ends later."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when its parent dies (Linux)."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Make grandchildren whose parent ended children of this process (Linux)."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1)


def flush_c_output() -> None:
    """Flush the output buffers of C code."""
    _libc().fflush(None)


def kill_children() -> None:
    """Kill all descendants of this process that its trial left behind, and wait for their end."""
    if not _children_live():
        return
    import psutil  # only after trials that left processes behind

    this = psutil.Process()
    # Where this process adopts orphans, only its own children are killed: nobody else waits for
    # them, so that their ids cannot have passed to other processes, and their children become
    # this process's and go in the next round. Elsewhere psutil compares start times.
    recursive = sys.platform != "linux"
    killed: set[psutil.Process] = set()
    end = time.monotonic() + PATIENCE
    while (_children_live() or any(map(_lives, killed))) and time.monotonic() < end:
        children = _suspended_tree(this) if recursive else this.children()
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        # A signal is delivered some time after `kill` returns. Orphans that nobody here waits for
        # are asked for instead.
        if recursive:
            killed.update(children)
        time.sleep(0.001)


def _suspended_tree(root: psutil.Process) -> list[psutil.Process]:
    """Suspend all descendants; return them.

    A process that forks while its parent is killed would leave a child that nothing links to the
    root, so none may run while they are listed.
    """
    import psutil

    suspended: dict[psutil.Process, None] = {}
    while new := [child for child in root.children(recursive=True) if child not in suspended]:
        for child in new:
            with contextlib.suppress(psutil.Error):
                child.suspend()
        suspended.update(dict.fromkeys(new))
    return list(suspended)


def _lives(process: psutil.Process) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _children_live() -> bool:
    """Reap the children that have ended; return whether others are alive."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True
