"""Memory of workers: their descendants count, others do not, and looking costs little."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from ope_bench.execution.process_tree import MemoryWatch

HOLD = 80 << 20
HOLDING = f"hold = b'1' * {HOLD}; print('ready', flush=True); input()"
PARENT_OF_ONE = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {HOLDING!r}], stdin=subprocess.PIPE)
input()
child.kill()
child.communicate()
print('alone', flush=True)
input()
"""
IDLE = "print('ready', flush=True); input()"
ENDLESS = 1 << 60


@contextlib.contextmanager
def process(code: str) -> Iterator[subprocess.Popen[str]]:
    """A child of this process that has said its first word."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield child
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                for one in psutil.Process(child.pid).children():
                    one.kill()
            child.kill()


def say(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    child.stdout.readline()


def resident(pid: int) -> int:
    return psutil.Process(pid).memory_info().rss


def test_descendants_count_as_long_as_they_live() -> None:
    watch = MemoryWatch()
    with process(PARENT_OF_ONE) as parent:
        limit = resident(parent.pid) + HOLD // 2
        used = watch.excess(parent.pid, limit)
        assert used is not None
        assert used >= resident(parent.pid) + HOLD
        assert watch.excess(parent.pid, used + HOLD) is None
        say(parent)
        # The search before is remembered, and yet nobody is killed for a process that has ended.
        assert watch.excess(parent.pid, limit) is None


def test_each_worker_answers_for_its_own() -> None:
    watch = MemoryWatch()
    with process(IDLE) as small, process(HOLDING) as large:
        limit = HOLD // 2
        assert watch.excess(small.pid, limit) is None
        used = watch.excess(large.pid, limit)
        assert used is not None
        assert used >= HOLD
        assert watch.excess(small.pid, limit) is None


def test_a_process_that_got_the_id_of_one_that_ended_is_not_counted() -> None:
    watch = MemoryWatch()
    with process(IDLE) as small, process(HOLDING) as large:
        assert watch.excess(small.pid, ENDLESS) is None
        watch._trees[small.pid].append(psutil.Process(large.pid))
        watch._next_search = float("inf")
        assert watch.excess(small.pid, HOLD // 2) is None


def test_a_worker_that_started_since_the_search_is_watched() -> None:
    watch = MemoryWatch()
    with process(IDLE) as first:
        assert watch.excess(first.pid, ENDLESS) is None
        watch._next_search = float("inf")
        with process(HOLDING) as second:
            assert watch.excess(second.pid, HOLD // 2) is not None


def test_a_worker_that_ended_uses_nothing() -> None:
    watch = MemoryWatch()
    with process(HOLDING) as child:
        assert watch.excess(child.pid, ENDLESS) is None
        child.kill()
        child.wait()
        assert watch.excess(child.pid, HOLD // 2) is None


def test_searches_take_a_bounded_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = MemoryWatch()
    searches = 0

    def slow(**_: Any) -> list[psutil.Process]:
        nonlocal searches
        searches += 1
        time.sleep(0.01)
        return []

    monkeypatch.setattr(watch._coordinator, "children", slow)
    with process(IDLE) as child:
        begun = time.monotonic()
        while time.monotonic() < begun + 0.5:
            assert watch.excess(child.pid, ENDLESS) is None
            time.sleep(0.001)
    assert searches == 1
