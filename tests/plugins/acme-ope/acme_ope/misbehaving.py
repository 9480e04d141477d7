"""An estimator that does, on request, what plugins must not do."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Literal, Self, cast

import numpy as np

from ope_bench import Estimate, Estimator, PositivityViolation, View

How = Literal[
    "nothing",
    "raise",
    "positivity",
    "hang",
    "hang-in-c",
    "ignore-signals",
    "segfault",
    "abort",
    "allocate",
    "allocate-shared",
    "nan",
    "infinite",
    "wrong-type",
    "print",
    "spam",
    "spam-and-die",
    "sys-exit",
    "os-exit",
    "os-exit-0",
    "die-later",
    "mutate",
    "open-and-mutate",
    "fork",
    "interrupt",
    "children",
    "children-and-die",
    "children-and-hang",
    "swallow",
    "untidy",
    "close-files",
    "kill-parent",
    "kill-cluster-worker",
    "daemon",
    "temporary-files",
    "daemon-and-die",
    "daemon-and-hang",
]


class Misbehaving(Estimator):
    """Misbehaves as ``how`` says; ``note`` is a file that tells who was spawned."""

    def __init__(self, how: How = "nothing", note: str = "") -> None:
        self.how = how
        self.note = note

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        name = self.how.replace("-", "_")
        action = globals().get(f"_{name}")
        if action is not None:
            action(view, self.note)
        return self

    def estimate(self, view: View) -> Estimate:
        if self.how == "wrong-type":
            return cast(Estimate, "0.5")
        value = {"nan": float("nan"), "infinite": float("inf")}.get(self.how)
        return Estimate(float(view.reward.mean()) if value is None else value)


def _raise(view: View, note: str) -> None:
    msg = "as requested"
    raise ValueError(msg)


def _positivity(view: View, note: str) -> None:
    msg = "as requested"
    raise PositivityViolation(msg, unsupported_mass=0.25, fallback=0.5)


def _hang(view: View, note: str) -> None:
    while True:
        pass


def _hang_in_c(view: View, note: str) -> None:
    # Through PyDLL the lock of the interpreter is held all the while.
    ctypes.PyDLL(None).sleep(600)


def _ignore_signals(view: View, note: str) -> None:
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


def _segfault(view: View, note: str) -> None:
    os.write(2, b"about to touch address 0\n")
    ctypes.string_at(0)


def _abort(view: View, note: str) -> None:
    os.abort()


def _allocate(view: View, note: str) -> None:
    held = []
    while True:
        held.append(np.ones(4_000_000))


def _allocate_shared(view: View, note: str) -> None:
    import mmap

    held = []
    while True:
        block = mmap.mmap(-1, 32 << 20)
        for start in range(0, len(block), 4096):
            block[start] = 1
        held.append(block)


def _print(view: View, note: str) -> None:
    print("printed to stdout")
    print("printed to stderr", file=sys.stderr)
    os.write(1, b"written to descriptor 1\n")
    os.write(2, b"written to descriptor 2\n")


def _spam(view: View, note: str) -> None:
    line = "x" * 1_000
    for _ in range(2_000):
        print(line)
    for _ in range(2_000):
        os.write(2, line.encode() + b"\n")
    os.write(2, b"the end of the spam\n")


def _spam_and_die(view: View, note: str) -> None:
    _spam(view, note)
    os.kill(os.getpid(), signal.SIGKILL)


def _sys_exit(view: View, note: str) -> None:
    sys.exit(3)


def _os_exit(view: View, note: str) -> None:
    os._exit(3)


def _os_exit_0(view: View, note: str) -> None:
    os._exit(0)


def _die_later(view: View, note: str) -> None:
    threading.Timer(0.2, os._exit, (9,)).start()


def _mutate(view: View, note: str) -> None:
    view.reward[0] = 1_000.0


def _open_and_mutate(view: View, note: str) -> None:
    view.reward.setflags(write=True)
    view.reward[0] = 1_000.0


def _fork(view: View, note: str) -> None:
    # The child goes on as if it were the worker.
    os.fork()


def _interrupt(view: View, note: str) -> None:
    raise KeyboardInterrupt


def _children(view: View, note: str) -> None:
    sleeper = "import time; time.sleep(600)"
    spawned = [
        subprocess.Popen([sys.executable, "-S", "-c", sleeper]),
        subprocess.Popen([sys.executable, "-S", "-c", sleeper], start_new_session=True),
    ]
    pids = [process.pid for process in spawned]
    for process in spawned:
        # So that nobody warns of a child that nobody waited for.
        process.returncode = 0
    # A daemon's way: the child's child outlives the child, in a session of its own.
    script = (
        "import os, sys, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid(); print(os.getpid(), flush=True); sys.stdout.close(); os.close(1)\n"
        "time.sleep(600)"
    )
    command = [sys.executable, "-S", "-c", script]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    pids.append(int(done.stdout))
    with open(f"{note}.part", "w", encoding="ascii") as file:
        file.write(" ".join(map(str, pids)))
    os.replace(f"{note}.part", note)


def _children_and_die(view: View, note: str) -> None:
    _children(view, note)
    os.kill(os.getpid(), signal.SIGKILL)


def _children_and_hang(view: View, note: str) -> None:
    _children(view, note)
    _hang_in_c(view, note)


def _untidy(view: View, note: str) -> None:
    import warnings

    os.chdir("/")
    np.seterr(all="raise")
    warnings.simplefilter("error")
    np.random.seed(0)  # noqa: NPY002  on purpose


def _swallow(view: View, note: str) -> None:
    with contextlib.suppress(Exception):
        _ = view.propensity


def _close_files(view: View, note: str) -> None:
    os.closerange(0, 4_096)


def _kill_parent(view: View, note: str) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def _kill_cluster_worker(view: View, note: str) -> None:
    import psutil

    parents = psutil.Process().parents()
    # The first is the keeper of this process. Locally the second is whoever asked.
    parents[1].kill()
    time.sleep(60)


def _daemon(view: View, note: str) -> None:
    """Start three processes as daemons do: no parent, own sessions, nothing inherited."""
    script = (
        "import os, sys\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork(): os._exit(0)\n"
        "        os.write(1, b'%d\\n' % os.getpid())\n"  # at once: three processes write
        "        os.close(1)\n"
        "        command = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']\n"
        "        os.execve(sys.executable, command, {})\n"
    )
    command = [sys.executable, "-S", "-c", script]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    with open(f"{note}.part", "w", encoding="ascii") as file:
        file.write(" ".join(done.stdout.split()))
    os.replace(f"{note}.part", note)


def _temporary_files(view: View, note: str) -> None:
    import tempfile

    handle, path = tempfile.mkstemp()
    os.close(handle)
    with open(note, "w", encoding="utf-8") as file:
        file.write(path)


def _daemon_and_die(view: View, note: str) -> None:
    _daemon(view, note)
    os.kill(os.getpid(), signal.SIGKILL)


def _daemon_and_hang(view: View, note: str) -> None:
    _daemon(view, note)
    _hang_in_c(view, note)
