"""Run trials in worker processes on this machine, one persistent worker per slot.

A trial that hangs, crashes or exceeds its memory limit fails alone: the coordinator kills the
worker, writes the trial's record from the known facts, and starts a new worker. The coordinator is
a single thread that waits for messages and ended processes, so no lock can be held by a dead
worker.
"""

from __future__ import annotations

import contextlib
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

from ope_bench.errors import UsageError
from ope_bench.execution import Event, Finished, Limits, Started, Stopping
from ope_bench.execution.descendants import watchdog
from ope_bench.execution.descendants.memory_watch import MemoryWatch
from ope_bench.execution.messages import Batch, Cramped, Done, Fit, Ready
from ope_bench.execution.trial_queue import TrialQueue
from ope_bench.execution.worker_failure import failure_record, words_for_exit
from ope_bench.execution.worker_main import Task
from ope_bench.execution.worker_process import KEEPER_SECONDS, WorkerProcess
from ope_bench.trials.record import Trial
from ope_bench.trials.serialization import from_row
from ope_bench.trials.status import Status

__all__ = ["LocalExecutor"]

TICK = 0.05
PREFETCH_SECONDS = 0.05
"""Seconds of trials behind which the next one may already wait in the worker."""

PREFETCH_TRIALS = 16
"""Most trials that a worker has at a time. They fit the buffer of its socket: see `SMALL_TASK`."""

MOST_FAILED_STARTS = 3


class LocalExecutor:
    """Executor in worker processes, which can be killed without effect on other trials.

    Workers start when first needed and persist between calls of ``run``. They end with the thread
    that started them, so call ``run`` in the main thread.

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
        self.limits = Limits(timeout=timeout, memory=memory, preparation=preparation)
        self._mark = uuid.uuid4().hex
        watch = None if memory is None else MemoryWatch()
        self._slots = [
            WorkerProcess(number, self._mark, threads, self.limits, watch)
            for number in range(jobs)
        ]
        self._selector = selectors.DefaultSelector()
        self._folder: str | None = None
        """The folder of all temporary files of trials."""
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
        """Run the trials and yield events.

        Raises
        ------
        UsageError : workers die before they are ready.
        """
        queue = TrialQueue(trials)
        slots = self._slots[: 1 if exclusive else len(trials)]
        told = False
        while True:
            for slot in slots:
                self._feed(slot, queue, exclusive)
            running = sum(bool(slot.in_flight) for slot in slots)
            if self._giving_up or not running:
                return
            if self._stopping and not told:
                told = True
                yield Stopping(running)
            slots_to_read, due = self._wait(slots)
            for slot in slots_to_read:
                yield from self._handle_messages(slot)
                if due:
                    # After its messages, for its trial may have ended in time; whatever they are,
                    # for a worker that sends without end has limits, too.
                    slot.check()
                if slot.returncode is not None:
                    # Process its last messages first.
                    yield from self._handle_messages(slot)
                    yield from self._handle_death(slot, queue)

    def stop(self, *, now: bool = False) -> None:
        """Start no new trial; running ones are finished or, with ``now``, abandoned."""
        self._stopping = True
        self._giving_up |= now

    def resume(self) -> None:
        """Start new trials again, after a stop without ``now``."""
        self._stopping = self._giving_up

    def close(self) -> None:
        """End all workers at once, with everything that they spawned."""
        for slot in self._slots:
            slot.kill()
        for slot in self._slots:
            self._reap(slot)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def _feed(self, slot: WorkerProcess, queue: TrialQueue, exclusive: bool) -> None:
        """Keep a slot busy."""
        # Half of them at once, so that both processes wake up less often.
        if self._stopping or len(slot.in_flight) > PREFETCH_TRIALS // 2:
            return
        ahead = sum(self._expected(task.trial) for task in slot.in_flight)
        tasks: list[Task] = []
        while self._room(len(slot.in_flight) + len(tasks), ahead, exclusive):
            trial = queue.take(slot.number)
            if trial is None:
                break
            tasks.append(Task(trial, exclusive))
            ahead += self._expected(trial)
        if tasks and not slot.alive:
            self._start(slot)
        for task in reversed(slot.send(tasks)):
            queue.put_back(slot.number, task.trial)

    def _room(self, waiting: int, ahead: float, exclusive: bool) -> bool:
        """Return whether a slot takes another trial.

        Queued trials hide latency; behind long ones they would wait while other slots are idle.
        """
        if exclusive or not waiting:
            return not waiting
        return waiting < PREFETCH_TRIALS and ahead < PREFETCH_SECONDS

    def _expected(self, trial: Trial) -> float:
        """Return the seconds of a trial, as those of its cell that ended last."""
        return self._seconds.get(_cell(trial), PREFETCH_SECONDS)

    def _start(self, slot: WorkerProcess) -> None:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="ope-bench-")
        if self._watchdog is None and sys.platform == "linux":
            told = [self._mark, str(KEEPER_SECONDS), self._folder]
            self._watchdog = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", watchdog.__file__, *told],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        slot.start(self._folder)
        self._selector.register(slot, selectors.EVENT_READ, slot)
        if slot.pidfd is not None:
            self._selector.register(slot.pidfd, selectors.EVENT_READ, slot)

    def _wait(self, slots: Sequence[WorkerProcess]) -> tuple[list[WorkerProcess], bool]:
        """Return slots with possible messages, after waiting at most one tick.

        Also returns whether limits are due to be checked; then these are all slots.
        """
        now = time.monotonic()
        due = [slot.deadline for slot in slots if slot.in_flight and slot.deadline is not None]
        patience = max(0.0, min([self._checked + TICK, *due]) - now)
        readable = {key.data.number: key.data for key, _ in self._selector.select(patience)}
        now = time.monotonic()
        if now < min([self._checked + TICK, *due]):
            return list(readable.values()), False
        self._checked = now
        for slot in slots:
            slot.drain()
        return list(slots), True

    def _handle_messages(self, slot: WorkerProcess) -> Iterator[Event]:
        for message in slot.messages():
            match message:
                case Ready():
                    slot.ready = True
                    slot.started_at = time.monotonic()
                    self._failed_starts = 0
                case Cramped(reason):
                    slot.kill(Status.MEMORY, reason)
                case Batch(size):
                    slot.begin_batch(size)
                case Fit(facts):
                    slot.begin_fit(facts)
                    yield Started(slot.in_flight[0].trial, slot.number)
                case Done(row, retire):
                    slot.exiting = retire
                    yield self._finished(slot, row)
                    if not slot.alive:
                        # Stopped: further messages are about trials that were put back.
                        return

    def _finished(self, slot: WorkerProcess, row: tuple[Any, ...]) -> Finished:
        seconds = time.monotonic() - slot.started_at
        task, output = slot.done()
        # Of several messages that arrive together, the later ones seem to have taken no time.
        cell = _cell(task.trial)
        self._seconds[cell] = max(seconds, self._seconds.get(cell, 0.0) / 2)
        record = from_row(task.trial, row)
        if output:
            record = replace(record, output_tail=(record.output_tail or "") + output)
        if self._stopping:
            # Otherwise the queued trial would start, and its messages would reach the next call of
            # `run`; so wait for the worker, too.
            slot.in_flight.clear()
            slot.kill()
            self._reap(slot)
        return Finished(record, slot.number)

    def _handle_death(self, slot: WorkerProcess, queue: TrialQueue) -> Iterator[Event]:
        """Yield the running trial's failure and put the others back."""
        returncode = self._reap(slot)
        in_flight = list(slot.in_flight)
        slot.in_flight.clear()
        if not slot.ready:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                raise _cannot_start(returncode, slot.tail(), self.limits.memory)
        # The worker was stopped before the next trial began: put that trial back instead of
        # failing it.
        stopped = slot.killed or slot.exiting or not slot.ready
        at_fault = slot.kill_reason is not None or not stopped
        task = in_flight.pop(0) if in_flight and at_fault else None
        for waiting in reversed(in_flight):
            queue.put_back(slot.number, waiting.trial)
        if task is None:
            return
        # All replicates trained in this batch fail with it.
        batch_trials = queue.take_block(slot.number, task.trial) if slot.batch else []
        output = slot.tail()
        for trial in (task.trial, *batch_trials):
            record = failure_record(
                trial,
                slot.facts,
                batch=slot.batch,
                returncode=returncode,
                kill_reason=slot.kill_reason,
                output=output,
                exclusive=task.exclusive,
            )
            yield Finished(record, slot.number)

    def _reap(self, slot: WorkerProcess) -> int | None:
        if not slot.alive:
            return None
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(slot)
        if slot.pidfd is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(slot.pidfd)
        return slot.reap()


def _cell(trial: Trial) -> tuple[int, int]:
    # Compared by identity, which suffices within a plan; comparing contents would be slow.
    return id(trial.environment), id(trial.estimator)


def _cannot_start(returncode: int | None, tail: str | None, memory: int | None) -> UsageError:
    last = (tail or "").strip().rpartition("\n")[2]
    limit = f"; the memory limit of {memory / 2**20:,.0f} MiB may be too small" if memory else ""
    msg = f"no worker can start: it {words_for_exit(returncode)}{last and f' ({last})'}{limit}"
    return UsageError(msg)
