"""The program of a worker process: trials in, facts and records out.

Trials come as pickles, from the coordinator that we trust. Answers are lines of JSON, so that
nothing a plugin made is ever unpickled by the coordinator:

``["ready"]``            the worker has started
``["cramped", reason]``  nothing can run within the memory limit
``["batch", size]``      so many replicates, the trial's among them, are trained together first
``["fit", facts]``       the trial's fit begins; the facts survive the worker
``["done", row, retire]``   the record; with ``retire`` the worker ends and wants a successor
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ope_bench.execution import lineage
from ope_bench.execution.watchdog import MARK
from ope_bench.records import Status, Trial
from ope_bench.rows import plain_facts, record_row
from ope_bench.trial import Workspace, run_trial

__all__ = ["Task", "main", "separator"]

LEAST_ROOM = 16 << 20
"""Bytes below which even starting a trial fails, in ways that say nothing about it."""


@dataclass(frozen=True)
class Task:
    """One trial to run, and whether nothing else runs meanwhile."""

    trial: Trial
    exclusive: bool


def separator(mark: str) -> bytes:
    """What a worker writes to its output when a trial ends: the next one's may follow at once."""
    return f"\0{mark}\0".encode()


def main() -> None:
    """Serve until the coordinator closes its end. Arguments: descriptor, parent, memory limit."""
    descriptor, parent, memory = map(int, sys.argv[1:4])
    sys.argv[1:] = []
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lineage.die_with(parent)
    lineage.adopt_orphans()
    cramped = _limit(memory)
    _Server(socket.socket(fileno=descriptor)).serve(cramped)


def _limit(memory: int) -> str:
    """Limit the memory; the reason why nothing can run within the limit, or nothing."""
    try:
        # Should the machine run out of memory, the kernel had better take a worker.
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("500")
    except OSError:
        pass
    if memory and sys.platform == "linux":
        import resource

        # OpenBLAS allocates when it is loaded and, refused, tries for ever: before the limit.
        with contextlib.suppress(ImportError):
            importlib.import_module("scipy.linalg")
        # Not the address space: torch and CUDA reserve far more of that than they use.
        if (used := _data_bytes()) + LEAST_ROOM > memory:
            told = f"Python and its libraries take {used / 2**20:,.0f} MiB before a trial begins"
            return f"{told}; the limit is {memory / 2**20:,.0f} MiB"
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    return ""


def _data_bytes() -> int:
    """What counts against RLIMIT_DATA."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        found = [line.split()[1] for line in file if line.startswith("VmData:")]
    return int(found[0]) * 1024 if found else 0


class _Server:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._tasks = channel.makefile("rb")
        self._workspace = Workspace()
        self._pid = os.getpid()
        # Kept apart, because a plugin may point descriptor 2 elsewhere.
        self._output = os.dup(2)
        self._separator = separator(os.environ[MARK])

    def serve(self, cramped: str = "") -> None:
        self._send(["ready"])
        if cramped:
            self._send(["cramped", cramped])
        while True:
            try:
                task: Task = pickle.load(self._tasks)  # noqa: S301  from our own parent
            except EOFError:
                return
            record = run_trial(
                task.trial,
                self._workspace,
                on_fit=self._fit_begins,
                on_batch=self._batch_begins,
                exclusive=task.exclusive,
                restore=False,
            )
            lineage.flush_c_output()
            lineage.kill_children()
            os.write(self._output, self._separator)
            # An import that memory cut short leaves half a library behind.
            retire = _threads_left() or record.status is Status.MEMORY
            self._send(["done", record_row(record), retire])
            if retire:
                os._exit(0)

    def _fit_begins(self, facts: Mapping[str, Any]) -> None:
        self._send(["fit", plain_facts(facts)])

    def _batch_begins(self, size: int) -> None:
        self._send(["batch", size])

    def _send(self, message: list[Any]) -> None:
        if os.getpid() != self._pid:
            # A plugin forked, and its child came all the way back here.
            os._exit(1)
        self._channel.sendall(json.dumps(message).encode() + b"\n")


def _threads_left() -> bool:
    """Whether a trial left a thread behind that may yet do something to the next one.

    Daemon threads do not count: libraries keep such for themselves.
    """
    if threading.active_count() == 1:
        return False
    return any(
        not thread.daemon and thread is not threading.main_thread()
        for thread in threading.enumerate()
    )
