"""Ties between processes: a worker dies with its parent, and its children with their trial."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from functools import cache

__all__ = ["adopt_orphans", "descendants", "die_with", "flush_c_output", "kill_children"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, however that happens (Linux)."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Make grandchildren whose parent ended children of this process (Linux)."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1)


def flush_c_output() -> None:
    """Write out what C code has printed so far."""
    _libc().fflush(None)


def kill_children() -> None:
    """Kill whatever this process's trial has spawned and left behind, to the last descendant."""
    end = time.monotonic() + 2.0
    while _has_children() and time.monotonic() < end:
        for pid in _children(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            # Their own children are ours from now on and go in the next round.
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        time.sleep(0.001)


def _has_children() -> bool:
    if not hasattr(os, "waitid"):  # on some platforms only newer versions of Python have it
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found = [pid]
    for one in found:
        found += _children(one)
    return found
