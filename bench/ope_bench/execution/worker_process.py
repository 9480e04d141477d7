"""A slot: a worker process, its tasks, and its replacement when it dies."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ope_bench.execution import Limits, keeper
from ope_bench.execution.child_python import import_path, python_command
from ope_bench.execution.descendants import process_tree
from ope_bench.execution.descendants.memory_watch import MemoryWatch
from ope_bench.execution.descendants.watchdog import MARK, kill_marked
from ope_bench.execution.messages import (
    BUFFER_BYTES,
    Batch,
    Cramped,
    Fit,
    LineBuffer,
    Message,
    MessageError,
    Ready,
    parse_message,
)
from ope_bench.execution.worker_main import Task, separator
from ope_bench.trials.process.threads import thread_variables
from ope_bench.trials.status import Status

__all__ = ["KEEPER_SECONDS", "WorkerProcess"]

TAIL_BYTES = 4_000
PIPE_BYTES = 1 << 20
SMALL_TASK = 1 << 13
"""Bytes of a task that may wait behind others: so many never fill the buffer of a socket, where
the coordinator would wait for a worker that waits for it."""

MOST_BUFFERS = 64
KEEPER_SECONDS = process_tree.PATIENCE + 5.0
"""Seconds that a keeper has to end."""


class WorkerProcess:
    """A slot that runs one trial at a time.

    Parameters
    ----------
    number : number of the slot.
    mark : mark of the run in the environment of all processes that the worker starts.
    threads, limits : of each trial.
    memory_watch : shared by all workers, None where memory is not limited.
    """

    def __init__(
        self,
        number: int,
        mark: str,
        threads: int,
        limits: Limits,
        memory_watch: MemoryWatch | None,
    ) -> None:
        self.number = number
        self.limits = limits
        self.in_flight: deque[Task] = deque()
        """Tasks sent and not answered; the first is the one that runs."""
        self.facts: dict[str, Any] | None = None
        """What the worker told of the running trial when its fit began."""
        self.batch = 0
        """How many replicates the worker trains together just now; 0 outside of that."""
        self.kill_reason: tuple[Status, str] | None = None
        """Why the coordinator killed the worker."""
        self.deadline: float | None = None
        self.started_at = 0.0
        """When the running trial had its turn."""
        self.ready = False
        """The worker has started."""
        self.exiting = False
        """The worker ends of its own, after a trial that left something behind."""
        self.killed = False
        """The coordinator has killed the worker."""
        self.pidfd: int | None = None
        self._mark = mark
        self._threads = threads
        self._memory_watch = memory_watch
        self._generation = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._output = -1
        self._lines = LineBuffer()
        self._ignores_input = False
        """What the worker sends is no longer read."""
        self._tails = deque([b""])
        """Ends of what each trial in flight has written so far."""

    @property
    def alive(self) -> bool:
        """Return whether there is a worker."""
        return self._process is not None

    def fileno(self) -> int:
        """Return the descriptor of its messages."""
        return self._channel.fileno() if self._channel else -1

    def start(self, folder: str) -> None:
        """Start a worker whose temporary files lie in a folder."""
        ours, theirs = socket.socketpair()
        output, written = os.pipe()
        os.set_blocking(output, False)
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import fcntl  # not everywhere

            fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._generation += 1
        environment = {
            **os.environ,
            **thread_variables(self._threads),
            # Fix the hash seed, so that plugins iterate over sets of strings in the same order.
            "PYTHONHASHSEED": "0",
            **import_path(),
            MARK: self._own_mark,
            "TMPDIR": folder,
        }
        told = [theirs.fileno(), os.getpid(), self.limits.memory or 0]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [*python_command(keeper.__name__), *map(str, told)],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env=environment,
                pass_fds=[theirs.fileno()],
                # SIGINT of the terminal must reach the coordinator only.
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(written)
        self._channel, self._output = ours, output
        self._tails = deque([b""])
        self.pidfd = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        self.ready = self.exiting = self.killed = False
        self._begin()

    @property
    def _own_mark(self) -> str:
        return f"{self._mark}.{self.number}.{self._generation}."

    def send(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Send tasks to the worker; return those that must wait until it is idle: large ones."""
        messages: list[bytes] = []
        for task in tasks:
            message = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
            if self.in_flight and len(message) > SMALL_TASK:
                break
            messages.append(message)
            self.in_flight.append(task)
            if len(self.in_flight) == 1:
                self._begin()
        # The worker has just died, which the coordinator will detect.
        with contextlib.suppress(OSError):
            if messages and self._channel is not None:
                self._channel.sendall(b"".join(messages))
        return tasks[len(messages) :]

    def _begin(self) -> None:
        """Start timing the first queued task."""
        self.facts = None
        self.batch = 0
        self.kill_reason = None
        self.started_at = time.monotonic()
        self.deadline = self.started_at + self.limits.preparation

    def begin_batch(self, size: int) -> None:
        """Set the time limit for training a block: that of all its trials."""
        self.batch = size
        timeout = self.limits.timeout
        if timeout is None:
            self.deadline = None
        else:
            self.deadline = time.monotonic() + self.limits.preparation + size * timeout

    def begin_fit(self, facts: dict[str, Any]) -> None:
        """Start the time limit of the running trial's fit."""
        self.facts = facts
        self.batch = 0
        timeout = self.limits.timeout
        self.deadline = None if timeout is None else time.monotonic() + timeout

    def done(self) -> tuple[Task, str | None]:
        """Remove the finished task; return it with the end of its output."""
        self.drain()
        task, output = self.in_flight.popleft(), self.tail()
        self._begin()
        return task, output

    def messages(self) -> Iterator[Message]:
        """Yield the worker's new messages, of at most one buffer while it lives.

        A worker that writes without end must not keep the coordinator from the others. Something
        else than messages, or messages out of order, cost the worker.
        """
        for buffer in self._buffers():
            try:
                for line in self._lines.lines(buffer):
                    yield self._in_order(parse_message(line))
            except MessageError as exc:
                self._ignores_input = True
                self.kill(Status.CRASH, f"something wrote to the worker's channel: {exc}")
                return

    def _buffers(self) -> Iterator[bytes]:
        # What a dead worker has sent fits the buffer of a socket, a few of these.
        most = 1 if self.returncode is None else MOST_BUFFERS
        with contextlib.suppress(OSError):
            while most and self._channel is not None and not self._ignores_input:
                most -= 1
                buffer = self._channel.recv(BUFFER_BYTES, socket.MSG_DONTWAIT)
                if not buffer:
                    return
                yield buffer

    def _in_order(self, message: Message) -> Message:
        """Return a message that may come now: otherwise each could prolong the time limit."""
        if isinstance(message, Ready):
            fits = not self.ready
        elif isinstance(message, Fit):
            fits = bool(self.in_flight) and self.facts is None
        elif isinstance(message, Batch):
            fits = bool(self.in_flight) and self.facts is None and not self.batch
        else:
            fits = isinstance(message, Cramped) or bool(self.in_flight)
        if not fits:
            msg = f"'{type(message).__name__.lower()}' out of order"
            raise MessageError(msg)
        return message

    def drain(self) -> None:
        """Read the worker's output, so that its pipe does not fill up; keep the end."""
        with contextlib.suppress(OSError):
            # At most one pipe buffer: a worker that writes endlessly must not block the
            # coordinator.
            written = os.read(self._output, PIPE_BYTES)
            parts = (self._tails.pop() + written).split(separator(self._own_mark))
            self._tails += [part[-TAIL_BYTES:] for part in parts]

    def tail(self) -> str | None:
        """Return the end of the output of the trial that has just ended."""
        tail = self._tails.popleft()
        if not self._tails:
            self._tails.append(b"")
        return tail.decode(errors="replace") or None

    def check(self) -> None:
        """Kill a worker that exceeds its time or memory limit."""
        if not self.in_flight or self._process is None or self.killed:
            return
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.kill(Status.TIMEOUT, self._words_for_timeout())
        elif self._memory_watch is not None and self.limits.memory is not None:
            used = self._memory_watch.excess(self._process.pid, self.limits.memory)
            if used is not None:
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
        """Kill the worker; status and message are for the record of the running trial."""
        if status is not None:
            self.kill_reason = status, message
        if self._process is not None and self._process.poll() is None:
            self.killed = True
            with contextlib.suppress(OSError):
                if sys.platform == "linux":
                    # The keeper kills the worker and all that its trials started.
                    os.kill(self._process.pid, signal.SIGTERM)
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def returncode(self) -> int | None:
        """Return the exit code of an ended worker."""
        return self._process.poll() if self._process else None

    def reap(self) -> int | None:
        """Reap an ended worker and kill all its descendants; return its exit code."""
        assert self._process is not None  # noqa: S101
        try:
            returncode = self._process.wait(KEEPER_SECONDS)
        except subprocess.TimeoutExpired:
            # Stopped by what it keeps, or its system hangs.
            self._process.kill()
            returncode = self._process.wait()
        kill_marked(self._own_mark)
        self.drain()
        if self._channel:
            self._channel.close()
        os.close(self._output)
        if self.pidfd is not None:
            os.close(self.pidfd)
        self._process = self._channel = self.pidfd = None
        self._output, self._lines, self._ignores_input = -1, LineBuffer(), False
        return returncode
