"""One slot: a worker process, what it runs, and its replacement when it dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from ope_bench.execution import Limits
from ope_bench.execution.lineage import descendants
from ope_bench.execution.threads import thread_variables
from ope_bench.execution.watchdog import MARK, kill_marked
from ope_bench.execution.worker import Task, separator
from ope_bench.records import Status

__all__ = ["Slot"]

TAIL_BYTES = 4_000
PIPE_BYTES = 1 << 20
SMALL_TASK = 1 << 14

_BOOT = (
    "import os, sys; sys.path[:] = os.environ['OPE_BENCH_PATH'].split(os.pathsep); "
    "from ope_bench.execution.worker import main; main()"
)


class Slot:
    """A place where one trial at a time runs.

    Parameters
    ----------
    number : of the slot.
    mark : of the run, in the environment of everything that the worker spawns.
    threads, limits : of each trial.
    """

    def __init__(self, number: int, mark: str, threads: int, limits: Limits) -> None:
        self.number = number
        self.limits = limits
        self.flight: deque[Task] = deque()
        """Tasks sent and not answered; the first is the one that runs."""
        self.facts: dict[str, Any] | None = None
        """What the worker told of the running trial when its fit began."""
        self.batch = 0
        """How many replicates the worker trains together just now; 0 outside of that."""
        self.verdict: tuple[Status, str] | None = None
        """Why the coordinator killed the worker."""
        self.deadline: float | None = None
        self.begun = 0.0
        """When the running trial had its turn."""
        self.ready = False
        """The worker has started."""
        self.retired = False
        """The worker ends of its own, after a trial that left something behind."""
        self.condemned = False
        """The coordinator has killed the worker."""
        self.pidfd: int | None = None
        self._mark = mark
        self._threads = threads
        self._generation = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._output = -1
        self._received = b""
        self._tails = deque([b""])
        """Ends of what each trial in flight has written so far."""

    @property
    def alive(self) -> bool:
        """Whether there is a worker."""
        return self._process is not None

    def fileno(self) -> int:
        """Where its messages come from."""
        return self._channel.fileno() if self._channel else -1

    def start(self) -> None:
        """Start a worker."""
        ours, theirs = socket.socketpair()
        output, written = os.pipe()
        os.set_blocking(output, False)
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._generation += 1
        environment = {
            **os.environ,
            **thread_variables(self._threads),
            # A plugin that walks through a set of words should walk the same way every time.
            "PYTHONHASHSEED": "0",
            "OPE_BENCH_PATH": os.pathsep.join(map(str, sys.path)),
            MARK: self._own_mark,
        }
        told = [theirs.fileno(), os.getpid(), self.limits.memory or 0]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", _BOOT, *map(str, told)],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env=environment,
                pass_fds=[theirs.fileno()],
                # Ctrl-C in the terminal is for the coordinator alone.
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(written)
        self._channel, self._output = ours, output
        self._tails = deque([b""])
        self.pidfd = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        self.ready = self.retired = self.condemned = False
        self._begin()

    @property
    def _own_mark(self) -> str:
        return f"{self._mark}.{self.number}.{self._generation}."

    def send(self, task: Task) -> bool:
        """Give the worker a task; False where a large one has to wait until it is idle."""
        message = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
        if self.flight and len(message) > SMALL_TASK:
            return False
        self.flight.append(task)
        if len(self.flight) == 1:
            self._begin()
        # A worker that has just died takes nothing; its death will be seen and told.
        with contextlib.suppress(OSError):
            assert self._channel is not None  # noqa: S101
            self._channel.sendall(message)
        return True

    def _begin(self) -> None:
        """The first task in flight has its turn."""
        self.facts = None
        self.batch = 0
        self.verdict = None
        self.begun = time.monotonic()
        self.deadline = self.begun + self.limits.preparation

    def begin_batch(self, size: int) -> None:
        """The running trial's block is sampled and trained, with the time of all its trials."""
        self.batch = size
        timeout = self.limits.timeout
        if timeout is None:
            self.deadline = None
        else:
            self.deadline = time.monotonic() + self.limits.preparation + size * timeout

    def begin_fit(self, facts: dict[str, Any]) -> None:
        """The running trial's clock starts."""
        self.facts = facts
        self.batch = 0
        timeout = self.limits.timeout
        self.deadline = None if timeout is None else time.monotonic() + timeout

    def done(self) -> tuple[Task, str | None]:
        """The running trial has its record: the task, and the end of what was written."""
        self.drain()
        task, output = self.flight.popleft(), self.tail()
        self._begin()
        return task, output

    def messages(self) -> Iterator[list[Any]]:
        """What the worker has said since."""
        if self._channel is None:
            return
        with contextlib.suppress(OSError):
            while chunk := self._channel.recv(1 << 16, socket.MSG_DONTWAIT):
                self._received += chunk
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                self.kill(Status.CRASH, "something wrote to the worker's channel")
                return
            yield message

    def drain(self) -> None:
        """Take what the worker has written, so that it can write on; keep the end of it."""
        with contextlib.suppress(OSError):
            # One pipe full at most: a worker that writes without end must not hold us up.
            written = os.read(self._output, PIPE_BYTES)
            parts = (self._tails.pop() + written).split(separator(self._own_mark))
            self._tails += [part[-TAIL_BYTES:] for part in parts]

    def tail(self) -> str | None:
        """The end of what the trial that has just ended wrote."""
        tail = self._tails.popleft()
        if not self._tails:
            self._tails.append(b"")
        return tail.decode(errors="replace") or None

    def check(self) -> None:
        """Kill a worker whose time is up or whose memory is too large."""
        if not self.flight or self._process is None or self.condemned:
            return
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.kill(Status.TIMEOUT, self._words_for_timeout())
        elif self.limits.memory is not None:
            used = _resident(self._process.pid)
            if used > self.limits.memory:
                limit = f"{self.limits.memory / 2**20:,.0f} MiB"
                told = f"{used / 2**20:,.0f} MiB resident, children included; the limit is {limit}"
                self.kill(Status.MEMORY, told)

    def _words_for_timeout(self) -> str:
        if self.batch:
            each = f"{self.batch} x {self.limits.timeout:g} s"
            return f"training {self.batch} replicates together took longer than {each}"
        if self.facts is not None:
            return f"fit and estimate took longer than {self.limits.timeout:g} s"
        return f"imports and sampling took longer than {self.limits.preparation:g} s, before fit"

    def kill(self, status: Status | None = None, message: str = "") -> None:
        """Kill the worker, for a reason that goes to the record of the running trial."""
        if status is not None:
            self.verdict = status, message
        if self._process is not None and self._process.poll() is None:
            self.condemned = True
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def returncode(self) -> int | None:
        """Of a worker that ended."""
        return self._process.poll() if self._process else None

    def bury(self) -> int | None:
        """Clear away a worker that ended, and all that it spawned; its return code."""
        assert self._process is not None  # noqa: S101
        returncode = self._process.wait()
        kill_marked(self._own_mark)
        self.drain()
        if self._channel:
            self._channel.close()
        os.close(self._output)
        if self.pidfd is not None:
            os.close(self.pidfd)
        self._process = self._channel = self.pidfd = None
        self._output, self._received = -1, b""
        return returncode


def _resident(pid: int) -> int:
    """Bytes of resident memory of a process and its descendants."""
    total = 0
    for one in descendants(pid):
        # It may have ended meanwhile.
        with contextlib.suppress(OSError), open(f"/proc/{one}/statm", encoding="ascii") as file:
            total += int(file.read().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")
