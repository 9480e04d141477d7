"""Real processes, killed at random moments: nothing finished is lost, nothing lives on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ope_bench.execution.watchdog import MARK as WORKER_MARK
from ope_bench.store import Store
from support.paths import ACME, SUPPORT

N_SHORT = 90
N_MANY = 2_000
MARK = {"OPE_BENCH_TEST": uuid.uuid4().hex}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


class Coordinator:
    """A process that coordinates a run, and what it prints."""

    def __init__(self, server: subprocess.Popen[str], *arguments: str) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        variables = MARK | {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        print(json.dumps([variables, arguments]), file=server.stdin, flush=True)
        self._stdout = server.stdout
        self.pid = int(self._stdout.readline().removeprefix("pid "))
        self._exit_code: int | None = None

    def lines(self) -> Iterator[str]:
        """Yield the lines until its end."""
        while self._exit_code is None:
            line = self._stdout.readline().rstrip("\n")
            if line.startswith("exit "):
                self._exit_code = int(line.removeprefix("exit "))
            else:
                yield line

    def wait_for(self, word: str) -> None:
        """Read lines up to one that begins with a word."""
        if not any(line.startswith(word) for line in self.lines()):
            msg = f"it never said '{word}'"
            raise AssertionError(msg)

    def wait(self) -> int:
        """Return the exit code."""
        for _ in self.lines():
            pass
        assert self._exit_code is not None
        return self._exit_code

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(self.pid, number)


Coordinate = Callable[..., contextlib.AbstractContextManager[Coordinator]]


@pytest.fixture(scope="module")
def coordinator() -> Iterator[Coordinate]:
    """Starts coordinators, one at a time, from a process that has imported the harness."""
    server = subprocess.Popen(
        [sys.executable, str(SUPPORT / "coordinator.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    @contextlib.contextmanager
    def start(store: Path, what: str, *, jobs: int = 2, note: str = "") -> Iterator[Coordinator]:
        arguments = [str(ACME), str(store), str(jobs), what, *([note] if note else [])]
        process = Coordinator(server, *arguments)
        limit = threading.Timer(300, process.send_signal, [signal.SIGKILL])
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.send_signal(signal.SIGKILL)
            process.wait()

    with server:
        yield start


def marked() -> set[int]:
    """Processes that our coordinators started, at any remove; dead ones have no environment.

    The coordinators have that of the process from which they were forked.
    """
    wanted = b"=".join(word.encode() for word in next(iter(MARK.items())))
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.add(int(name))
    return found


def none_left() -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end and marked():
        time.sleep(0.02)
    return not marked()


def contents(path: Path) -> list[tuple[object, ...]]:
    with Store.open(path) as store:
        return [
            (one.key, one.status, one.estimate, one.truth_empirical, one.trial.replicate)
            for one in store.records()
        ]


def test_killed_at_any_moment_and_run_again_it_ends_as_if_nothing_had_happened(
    tmp_path: Path, coordinator: Coordinate
) -> None:
    whole, killed = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    with coordinator(whole, "short", jobs=1) as process:
        assert [*process.lines()][-1] == f"over {N_SHORT} 0"
    moments = random.Random(0)
    promised: set[str] = set()
    for _ in range(25):
        with coordinator(killed, "short") as process:
            # Now and then before the store exists, mostly while trials finish.
            if moments.random() < 0.8:
                with contextlib.suppress(AssertionError):
                    process.wait_for("started")
            time.sleep(moments.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
            said = [*process.lines()]
        finished = {line.split()[1] for line in said if line.startswith("finished")}
        assert not finished & promised, "a stored trial ran again"
        promised |= finished
        if killed.exists() and promised:
            assert promised <= {str(row[0]) for row in contents(killed)}
        if len(promised) > 0.9 * N_SHORT:
            break
    with coordinator(killed, "short") as process:
        assert [*process.lines()][-1].startswith("over")
        assert process.wait() == 0
    assert contents(killed) == contents(whole)
    with Store.open(killed) as store:
        assert store.info().records == N_SHORT, "a trial was stored twice"
    assert none_left()
    assert sorted(file.name for file in tmp_path.iterdir()) == [killed.name, whole.name]


def test_what_plugins_spawned_dies_with_a_killed_coordinator(
    tmp_path: Path, coordinator: Coordinate
) -> None:
    note = tmp_path / "note"
    with coordinator(tmp_path / "s.sqlite", "families", jobs=1, note=str(note)) as process:
        end = time.monotonic() + 60
        while not note.exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert len(marked()) >= 4, "a worker and three of its descendants"
        process.send_signal(signal.SIGKILL)
    assert none_left()


def test_daemons_without_an_environment_die_with_a_killed_coordinator(
    tmp_path: Path, coordinator: Coordinate
) -> None:
    note = tmp_path / "note"
    with coordinator(tmp_path / "s.sqlite", "daemons", jobs=1, note=str(note)) as process:
        end = time.monotonic() + 60
        while not note.exists() and time.monotonic() < end:
            time.sleep(0.02)
        daemons = [psutil.Process(int(pid)) for pid in note.read_text().split()]
        assert len(daemons) == 3
        process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(daemons, timeout=60)
    assert not alive
    assert none_left()


def test_temporary_files_go_with_a_run_whose_keepers_are_killed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: Coordinate
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    with coordinator(tmp_path / "s.sqlite", "endless", jobs=1) as process:
        process.wait_for("started")
        (of_run,) = folder.iterdir()
        assert list(of_run.iterdir()), "a folder of the worker"
        children = psutil.Process(process.pid).children()
        (keeper,) = [child for child in children if WORKER_MARK in child.environ()]
        keeper.kill()
        process.send_signal(signal.SIGKILL)
    assert none_left()
    assert not of_run.exists()


def test_one_ctrl_c_lets_running_trials_finish(tmp_path: Path, coordinator: Coordinate) -> None:
    store = tmp_path / "s.sqlite"
    with coordinator(store, "long") as process:
        process.wait_for("finished")
        process.wait_for("started")
        process.send_signal(signal.SIGINT)
        said = [*process.lines()]
        assert process.wait() == 130
    assert said[-1].startswith("over")
    executed = int(said[-1].split()[1])
    # A busy machine may run more before the signal arrives; not all 40.
    assert 2 <= executed < 40
    assert len(contents(store)) == executed
    with Store.open(store) as opened:
        assert [run.exit_code for run in opened.runs()] == [130]


def test_ctrl_c_among_short_trials_ends_the_run_and_loses_nothing(
    tmp_path: Path, coordinator: Coordinate
) -> None:
    moments = random.Random(1)
    for number in range(3):
        store = tmp_path / f"{number}.sqlite"
        with coordinator(store, "many") as process:
            process.wait_for("finished")
            time.sleep(moments.uniform(0, 0.1))
            process.send_signal(signal.SIGINT)
            said = [*process.lines()]
            assert process.wait() == 130
        assert said[-1].startswith("over")
        assert len(contents(store)) == int(said[-1].split()[1]) < N_MANY
        with Store.open(store) as opened:
            assert [run.exit_code for run in opened.runs()] == [130]
    assert none_left()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_second_ctrl_c_ends_what_runs(
    jobs: int, tmp_path: Path, coordinator: Coordinate
) -> None:
    with coordinator(tmp_path / "s.sqlite", "endless", jobs=jobs) as process:
        for _ in range(jobs):
            process.wait_for("started")
        process.send_signal(signal.SIGINT)
        process.wait_for(f"stopping: waiting for {jobs} running trial")
        process.send_signal(signal.SIGINT)
        assert [*process.lines()] == ["over 0 0"]
        assert process.wait() == 130
    assert none_left()


def test_ctrl_c_twice_interrupts_a_trial_in_this_process(
    tmp_path: Path, coordinator: Coordinate
) -> None:
    with coordinator(tmp_path / "s.sqlite", "asleep", jobs=0) as process:
        process.wait_for("started")
        end = time.monotonic() + 60
        # Two signals at once may arrive as one.
        while psutil.pid_exists(process.pid) and time.monotonic() < end:
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        assert process.wait() == 130
