"""Trials wait in a worker only behind short ones, and only so many as never block a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from ope_bench.execution import Finished, local, worker_process
from ope_bench.execution.local import PREFETCH_TRIALS, LocalExecutor
from ope_bench.execution.worker_main import Task
from ope_bench.execution.worker_process import WorkerProcess
from ope_bench.trials.record import Trial

Ask = Callable[..., Trial]
Run = Callable[..., None]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[list[Trial]]:
    """The trials that a worker has, running and waiting, each time it is sent some."""
    flights: list[list[Trial]] = []
    send = WorkerProcess.send

    def noted(self: WorkerProcess, tasks: Sequence[Task]) -> Sequence[Task]:
        rest = send(self, tasks)
        flights.append([task.trial for task in self.in_flight])
        return rest

    monkeypatch.setattr(WorkerProcess, "send", noted)
    return flights


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """One worker."""
    with LocalExecutor(1) as executor:
        yield executor


@pytest.fixture
def run(executor: LocalExecutor) -> Callable[..., None]:
    """Runs trials of whose length nothing is known, in their order."""
    executor._seconds.clear()

    def in_order(trials: Sequence[Trial], *, exclusive: bool = False) -> None:
        events = executor.run(trials, exclusive=exclusive)
        assert [event.record.trial for event in events if isinstance(event, Finished)] == trials

    return in_order


def test_short_trials_wait_in_the_worker(
    acme: Ask, run: Run, held: list[list[Trial]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a trial may take a hundredth of a second.
    monkeypatch.setattr(local, "PREFETCH_SECONDS", 60.0)
    run([acme("mean", number) for number in range(5 * PREFETCH_TRIALS)])
    assert len(held[0]) == 1, "nothing is known of the first"
    assert max(map(len, held)) == PREFETCH_TRIALS


def test_trials_that_run_alone_do_not_wait(acme: Ask, run: Run, held: list[list[Trial]]) -> None:
    run([acme("mean", number) for number in range(20)], exclusive=True)
    assert max(map(len, held)) == 1


def test_nothing_waits_behind_a_trial_of_unknown_length(
    acme: Ask, run: Run, held: list[list[Trial]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PREFETCH_SECONDS", 60.0)
    short, unknown = acme("mean"), acme("mean", label="unknown")
    run([replace(short, replicate=number) for number in range(20)] + [unknown, short])
    assert max(map(len, held)) > 1
    assert [tasks for tasks in held if unknown in tasks[:-1]] == []


def test_nothing_waits_behind_a_long_trial(
    acme: Ask, run: Run, held: list[list[Trial]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PREFETCH_SECONDS", 0.3)
    run([acme("mean", number, seconds=0.2) for number in range(6)])
    # Two are longer than that together.
    assert max(map(len, held)) == 2


def test_large_tasks_do_not_wait(
    acme: Ask, run: Run, held: list[list[Trial]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SMALL_TASK", 10)
    run([acme("mean", number) for number in range(20)])
    assert max(map(len, held)) == 1
