"""The program of a worker process: trials in, facts and records out.

Trials arrive as pickles from the coordinator, which is trusted. Replies are lines of JSON, so that
the coordinator never unpickles objects of plugins:

``["ready"]``            the worker has started
``["cramped", reason]``  no trial can run within the memory limit
``["batch", size]``      this number of replicates is trained together first
``["fit", facts]``       the trial's fit begins; the facts survive the worker
``["done", row, retire]``   the record; with ``retire`` the worker ends and must be replaced
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import pickle
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from typing import Any

from ope_bench.execution import process_tree
from ope_bench.execution.watchdog import MARK
from ope_bench.plugins.registry import registry
from ope_bench.trials.foreign import Processes
from ope_bench.trials.record import Trial, plain_facts, to_row
from ope_bench.trials.status import Status
from ope_bench.trials.trial import Workspace, run_trial

MOST_DESCRIPTORS = 200
"""Numbers of open files up to which a worker goes on; the usual limit is 1,024."""

LEAST_ROOM = 16 << 20
"""Bytes below which even starting a trial fails, in ways that say nothing about it."""


@dataclass(frozen=True)
class Task:
    """One trial to run, and whether it runs alone."""

    trial: Trial
    exclusive: bool


def separator(mark: str) -> bytes:
    """Return the line that separates the outputs of two trials."""
    return f"\0{mark}\0".encode()


def main(parent: int) -> None:
    """Run tasks until the coordinator closes the channel.

    Arguments of the command: the channel's descriptor, the coordinator, the memory limit, and the
    descriptor by which foreign processes are started, or -1.

    Parameters
    ----------
    parent : the process with which this one ends.
    """
    descriptor, _, memory, control = map(int, sys.argv[1:5])
    sys.argv[1:] = []
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if control >= 0:  # Foreign code runs elsewhere.
        os.set_inheritable(control, False)
        foreign = Processes(socket.socket(fileno=control), memory or None)
        registry().stand_in = foreign.stand_in
    process_tree.die_with(parent)
    process_tree.adopt_orphans()
    cramped = _limit(memory)
    channel = socket.socket(fileno=descriptor)
    tasks = channel.makefile("rb")
    workspace = Workspace(mapped=True)
    pid = os.getpid()
    # A duplicate, because a plugin may redirect descriptor 2.
    output = os.dup(2)
    faulthandler.enable(output, all_threads=False)
    end_of_output = separator(os.environ[MARK])

    def send(*message: Any) -> None:
        if os.getpid() != pid:
            # A plugin forked, and the child process returned to this point.
            os._exit(1)
        channel.sendall(json.dumps(message).encode() + b"\n")

    send("ready")
    if cramped:
        send("cramped", cramped)
    while True:
        try:
            task: Task = pickle.load(tasks)  # noqa: S301  from our own parent
        except EOFError:
            return
        record = run_trial(
            task.trial,
            workspace,
            on_fit=lambda facts: send("fit", plain_facts(facts)),
            on_batch=lambda size: send("batch", size),
            exclusive=task.exclusive,
            restore=False,
        )
        # A dump of the stack may be due, and end the process.
        faulthandler.cancel_dump_traceback_later()
        # Text in the buffers of C code belongs before the separator of this trial's output.
        process_tree.flush_c_output()
        # Before the record, for then the coordinator may begin to time the next trial.
        process_tree.kill_children()
        os.write(output, end_of_output)
        # An import that failed for lack of memory leaves a library partly loaded.
        retire = (
            # Daemon threads do not count: libraries use them internally.
            any(
                not thread.daemon and thread is not threading.main_thread()
                for thread in threading.enumerate()
            )
            or _descriptors_left()
            # Settings of the process have changed, which no other trial may see.
            or record.note is not None
            or record.status is Status.MEMORY
        )
        send("done", to_row(record), retire)
        if retire:
            os._exit(0)


def _limit(memory: int) -> str:
    """Limit the memory; return why no trial can run within the limit, or the empty string."""
    try:
        # If the machine runs out of memory, the kernel should kill a worker.
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("500")
    except OSError:
        pass
    if not memory:
        return ""
    # Loaded before the limit is set: OpenBLAS retries a failed allocation at load time forever.
    with contextlib.suppress(ImportError):
        importlib.import_module("scipy.linalg")
    import psutil

    # What counts: private writable memory, on other systems resident memory.
    info = psutil.Process().memory_info()
    used = info.data if sys.platform == "linux" else info.rss
    if used + LEAST_ROOM > memory:
        told = f"Python and its libraries take {used / 2**20:,.0f} MiB before a trial begins"
        return f"{told}; the limit is {memory / 2**20:,.0f} MiB"
    if sys.platform == "linux":
        import resource

        # Not the address space, of which torch and CUDA reserve far more than they use. On other
        # systems the coordinator's watch is the only limit.
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    return ""


def _descriptors_left() -> bool:
    """Return whether trials have left so many files open that descriptors may soon run out."""
    try:
        lowest = os.dup(2)
    except OSError:
        return True
    os.close(lowest)
    return lowest > MOST_DESCRIPTORS
