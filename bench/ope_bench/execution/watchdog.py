"""Ends what a dead coordinator left behind.

Workers die with their coordinator by the kernel's hand, but not what plugins spawned in them.
All of them carry a mark in their environment; this program waits until the coordinator's end of
a pipe closes and then kills whatever carries the mark. It is started by its path and imports
next to nothing, so that it costs little.
"""

import os
import signal
import sys
import time

__all__ = ["MARK", "kill_marked"]

MARK = "OPE_BENCH_WORKER"


def kill_marked(mark: str) -> int:
    """Kill every process whose ``OPE_BENCH_WORKER`` begins with ``mark``; how many there were."""
    wanted = f"{MARK}={mark}".encode()
    killed: set[int] = set()
    # Until a round finds nothing new: a process may spawn another while we look.
    for _ in range(20):
        found = {pid for pid in _processes() if pid not in killed and _carries(pid, wanted)}
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        killed |= found
    return len(killed)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # no such file system on this platform
        return []


def _carries(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(word.startswith(wanted) for word in file.read().split(b"\0"))
    except OSError:
        return False


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    # The kernel needs a moment to end the workers, and they may be spawning meanwhile.
    for _ in range(5):
        kill_marked(sys.argv[1])
        time.sleep(0.1)
