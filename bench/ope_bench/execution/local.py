"""Trials in killable worker processes on this machine, one persistent worker a slot.

A hang, a crash or an appetite for memory costs its own trial: the coordinator kills the worker,
writes the trial's record from what it knows, and starts another. The coordinator is a single
thread that waits for messages and deaths, so there is no lock that a dead worker could hold.
"""

from __future__ import annotations

import contextlib
import selectors
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

from ope_bench.errors import UsageError
from ope_bench.execution import Event, Finished, Limits, Started, Stopping, watchdog
from ope_bench.execution.affinity import Affinity
from ope_bench.execution.remains import record_of_dead, words_for_exit
from ope_bench.execution.slot import Slot
from ope_bench.execution.worker import Task
from ope_bench.records import Status, Trial
from ope_bench.rows import record_from

__all__ = ["LocalExecutor"]

TICK = 0.05
SHORT = 0.05
"""Seconds of a trial behind which the next one may already wait in the worker."""

MOST_FAILED_STARTS = 3


class LocalExecutor:
    """Runs trials in worker processes that can be killed without harm to the rest.

    Workers start when they are first needed and stay between calls of ``run``. They die with the
    thread that started them, so ``run`` belongs in the main thread.

    Parameters
    ----------
    jobs : number of slots.
    threads : a trial.
    timeout : seconds of fit and estimate together, None for no limit.
    memory : bytes a worker may use, None for no limit.
    preparation : seconds of imports and sampling.
    """

    def __init__(
        self,
        jobs: int = 1,
        *,
        threads: int = 1,
        timeout: float | None = None,
        memory: int | None = None,
        preparation: float = 600.0,
    ) -> None:
        self.jobs = jobs
        self.threads = threads
        self.limits = Limits(timeout, memory, preparation)
        self._mark = uuid.uuid4().hex
        self._slots = [Slot(n, self._mark, threads, self.limits) for n in range(jobs)]
        self._selector = selectors.DefaultSelector()
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._stopping = self._giving_up = False
        self._failed_starts = 0
        self._seconds: dict[tuple[int, int], float] = {}
        self._checked = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials and yield what happens.

        Raises
        ------
        UsageError : workers die before they have begun.
        """
        queue = Affinity(trials)
        slots = self._slots[: 1 if exclusive else len(trials)]
        told = False
        while True:
            for slot in slots:
                self._feed(slot, queue, exclusive)
            running = sum(bool(slot.flight) for slot in slots)
            if self._giving_up or not running:
                return
            if self._stopping and not told:
                told = True
                yield Stopping(running)
            for slot in self._wait(slots):
                yield from self._heard(slot)
                if slot.returncode is not None:
                    # What it said before it died comes first.
                    yield from self._heard(slot)
                    yield from self._died(slot, queue)

    def stop(self, *, now: bool = False) -> None:
        """Begin no new trial; those that run come to their end, or with ``now`` are given up."""
        self._stopping = True
        self._giving_up |= now

    def resume(self) -> None:
        """Begin new trials again, after a stop that gave nothing up."""
        self._stopping = self._giving_up

    def close(self) -> None:
        """End all workers at once, with everything that they spawned."""
        for slot in self._slots:
            slot.kill()
        for slot in self._slots:
            self._bury(slot)
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def _feed(self, slot: Slot, queue: Affinity, exclusive: bool) -> None:
        """Keep a slot busy."""
        while not self._stopping and len(slot.flight) < self._depth(slot, exclusive):
            trial = queue.take(slot.number)
            if trial is None:
                return
            if not slot.alive:
                self._start(slot)
            if not slot.send(Task(trial, exclusive)):
                queue.put_back(slot.number, trial)
                return

    def _depth(self, slot: Slot, exclusive: bool) -> int:
        """Two where the running trial is known to be short: the second hides the latency.

        Behind a long one it would be stranded while other slots have nothing to do.
        """
        if exclusive or not slot.flight:
            return 1
        return 2 if self._seconds.get(_cell(slot.flight[0].trial), SHORT) < SHORT else 1

    def _start(self, slot: Slot) -> None:
        if self._watchdog is None and sys.platform == "linux":
            self._watchdog = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", watchdog.__file__, self._mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        slot.start()
        self._selector.register(slot, selectors.EVENT_READ, slot)
        if slot.pidfd is not None:
            self._selector.register(slot.pidfd, selectors.EVENT_READ, slot)

    def _wait(self, slots: Sequence[Slot]) -> list[Slot]:
        """Slots of which there may be news, after at most a tick."""
        now = time.monotonic()
        due = [slot.deadline for slot in slots if slot.flight and slot.deadline is not None]
        patience = max(0.0, min([self._checked + TICK, *due]) - now)
        heard = {key.data.number: key.data for key, _ in self._selector.select(patience)}
        now = time.monotonic()
        if now < min([self._checked + TICK, *due]):
            return list(heard.values())
        self._checked = now
        for slot in slots:
            slot.drain()
            if slot not in heard.values():
                slot.check()
        return list(slots)

    def _heard(self, slot: Slot) -> Iterator[Event]:
        for kind, *content in slot.messages():
            if kind == "ready":
                slot.ready = True
                slot.begun = time.monotonic()
                self._failed_starts = 0
            elif kind == "cramped":
                slot.kill(Status.MEMORY, content[0])
            elif kind == "batch":
                slot.begin_batch(content[0])
            elif kind == "fit":
                slot.begin_fit(content[0])
                yield Started(slot.flight[0].trial, slot.number)
            elif kind == "done":
                row, slot.retired = content
                yield self._finished(slot, row)

    def _finished(self, slot: Slot, row: list[Any]) -> Finished:
        seconds = time.monotonic() - slot.begun
        task, output = slot.done()
        self._seconds[_cell(task.trial)] = seconds
        record = record_from(task.trial, tuple(row))
        if output:
            record = replace(record, output_tail=(record.output_tail or "") + output)
        if self._stopping:
            # What waits in the worker would otherwise begin.
            slot.flight.clear()
            slot.kill()
        return Finished(record, slot.number)

    def _died(self, slot: Slot, queue: Affinity) -> Iterator[Event]:
        """Tell the running trial's end and give the rest back."""
        returncode = self._bury(slot)
        flight = list(slot.flight)
        slot.flight.clear()
        if not slot.ready:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                raise _cannot_start(returncode, slot.tail(), self.limits.memory)
        # Killed for a trial that just ended, retired or not started: the next one did nothing.
        blameless = slot.verdict is None and (slot.condemned or slot.retired or not slot.ready)
        task = flight.pop(0) if flight and not blameless else None
        for waiting in reversed(flight):
            queue.put_back(slot.number, waiting.trial)
        if task is None:
            return
        # Who was to be trained together has failed together.
        fallen = queue.take_block(slot.number, task.trial) if slot.batch else []
        output = slot.tail()
        for trial in (task.trial, *fallen):
            record = record_of_dead(
                trial,
                slot.facts,
                batch=slot.batch,
                returncode=returncode,
                verdict=slot.verdict,
                output=output,
                exclusive=task.exclusive,
            )
            yield Finished(record, slot.number)

    def _bury(self, slot: Slot) -> int | None:
        if not slot.alive:
            return None
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(slot)
        if slot.pidfd is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(slot.pidfd)
        return slot.bury()


def _cell(trial: Trial) -> tuple[int, int]:
    # A plan's trials share their specs; comparing these by content would cost more than it saves.
    return id(trial.environment), id(trial.estimator)


def _cannot_start(returncode: int | None, tail: str | None, memory: int | None) -> UsageError:
    last = (tail or "").strip().rpartition("\n")[2]
    limit = f"; the memory limit of {memory / 2**20:,.0f} MiB may be too small" if memory else ""
    msg = f"no worker can start: it {words_for_exit(returncode)}{last and f' ({last})'}{limit}"
    return UsageError(msg)
