"""Kill processes that a dead coordinator left behind.

Keepers end with the coordinator, and kill their workers and all that these started; but a keeper
may be killed itself. All processes have a mark in their environment unless they removed it. This
program waits until the coordinator's end of a pipe closes, kills all processes with the mark, and
removes the temporary files of the run. It is started by its path and imports almost nothing, to be
cheap.
"""

import os
import signal
import sys
import time

MARK = "OPE_BENCH_WORKER"


def kill_marked(mark: str) -> int:
    """Kill every process whose ``OPE_BENCH_WORKER`` begins with ``mark``; return their number."""
    wanted = f"{MARK}={mark}".encode()
    killed: set[int] = set()
    # Repeat until a round finds no new process, since processes may start others meanwhile.
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
    except OSError:  # no /proc on this platform
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
    # The mark of the run, the seconds that keepers have to end, and the folder of temporary files.
    mark, seconds, folder = sys.argv[1:]
    sys.stdin.buffer.read()
    # Keepers, too, are told that the coordinator died; killed before they have cleared up, they
    # would leave the processes that have no mark.
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        if not any(_carries(pid, f"{MARK}={mark}".encode()) for pid in _processes()):
            break
        time.sleep(0.1)
    # The kernel needs time to end the workers, which may start processes meanwhile.
    for _ in range(5):
        kill_marked(mark)
        time.sleep(0.1)
    import shutil  # only now, to be cheap while it waits

    shutil.rmtree(folder, ignore_errors=True)
