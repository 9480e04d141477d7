"""Run trials in persistent worker processes on this machine.

A trial that hangs, crashes or exceeds its memory limit fails alone: the coordinator kills the
worker, writes the trial's record from the known facts, and starts a new worker. The coordinator is
a single thread that waits for messages and ended processes, so no lock can be held by a dead
worker.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from ope_bench.base.errors import UsageError
from ope_bench.execution import (
    Arithmetic,
    Event,
    Executor,
    Finished,
    Limits,
    Message,
    Started,
    Stopping,
    watchdog,
)
from ope_bench.execution.machine import arithmetic_variables, choose_arithmetic
from ope_bench.execution.process_tree import MemoryWatch
from ope_bench.execution.worker_main import Task
from ope_bench.execution.worker_process import (
    KEEPER_SECONDS,
    WorkerProcess,
    failure_record,
)
from ope_bench.plugins.registry import registry
from ope_bench.trials.foreign import Processes, words_for_exit
from ope_bench.trials.isolation import thread_variables
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Status


class TrialQueue:
    """A queue of trials for several workers.

    A worker that starts on some data gets all trials on them, so that they are sampled once and
    fits are shared; when no other data are left, it takes half of the queue of the busiest worker.
    A block of replicates that are trained together is never split, because each part would train
    the whole block.

    Parameters
    ----------
    trials : the trials; those of a group are adjacent.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        groups = groupby(trials, key=lambda trial: trial.group)
        self._groups = deque([*group] for _, group in groups)
        self._owned: dict[int, deque[Trial]] = defaultdict(deque)

    def take(self, worker: int) -> Trial | None:
        """Return the next trial for a worker, None when none is left."""
        mine = self._owned[worker]
        if not mine and self._groups:
            mine.extend(self._groups.popleft())
        elif not mine:
            shared = [one for one in self._owned.values() if one and not one[0].device.batched]
            busiest = max(shared, key=len, default=mine)
            for _ in range((len(busiest) + 1) // 2):
                mine.appendleft(busiest.pop())
        return mine.popleft() if mine else None

    def put_back(self, worker: int, trial: Trial) -> None:
        """Put back a trial that was taken but not started."""
        self._owned[worker].appendleft(trial)

    def take_block(self, worker: int, trial: Trial) -> list[Trial]:
        """Take the queued trials of the same estimator and block from a worker's queue."""
        mine = self._owned[worker]
        asked = trial.group, trial.estimator
        block = [one for one in mine if (one.group, one.estimator) == asked]
        self._owned[worker] = deque(one for one in mine if (one.group, one.estimator) != asked)
        return block


TICK = 0.05
PREFETCH_SECONDS = 0.05
"""Seconds of trials behind which the next one may already wait in the worker."""

PREFETCH_TRIALS = 16
"""Most trials that a worker has at a time. They fit the buffer of its socket: see `SMALL_TASK`."""

MOST_FAILED_STARTS = 3


class LocalExecutor(Executor):
    """Executor in worker processes, which can be killed without effect on other trials.

    Workers start when first needed and persist between calls of ``run``. They end with the thread
    that started them, so call ``run`` in the main thread.

    Parameters
    ----------
    jobs : number of workers.
    threads : a trial.
    timeout : seconds of fit and estimate together, None for no limit.
    memory : bytes a worker may use, None for no limit.
    preparation : seconds of imports and sampling.
    arithmetic : kernels of the workers; None for the portable ones where they are right.
    """

    def __init__(
        self,
        jobs: int = 1,
        *,
        threads: int = 1,
        timeout: float | None = None,
        memory: int | None = None,
        preparation: float = 600.0,
        arithmetic: Arithmetic | None = None,
        foreign: Processes | None = None,
    ) -> None:
        self.jobs = jobs
        self.arithmetic, self.arithmetic_note = choose_arithmetic(arithmetic)
        self.threads = threads
        self.limits = Limits(timeout=timeout, memory=memory, preparation=preparation)
        self._mark = uuid.uuid4().hex
        watch = None if memory is None else MemoryWatch()
        control = None if foreign is None or foreign.missing else foreign.control
        facts = (threads, self.limits, watch, self.arithmetic, control)
        self._workers = [WorkerProcess(number, self._mark, *facts) for number in range(jobs)]
        self._selector = selectors.DefaultSelector()
        self._folder: str | None = None
        """The folder of all temporary files of trials."""
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._failed_starts = 0
        self._seconds: dict[tuple[int, int], float] = {}
        self._checked = 0.0
        self._told = False

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials and yield events.

        Raises
        ------
        UsageError : workers die before they are ready.
        """
        if self.arithmetic_note and not self._told:
            self._told = True
            yield Message(self.arithmetic_note)
        queue = TrialQueue(trials)
        workers = self._workers[: 1 if exclusive else len(trials)]
        told = False
        while True:
            for worker in workers:
                self._feed(worker, queue, exclusive)
            running = sum(bool(worker.in_flight) for worker in workers)
            if self._giving_up or not running:
                return
            if self._stopping and not told:
                told = True
                yield Stopping(running)
            # Wait for messages and ended processes until limits are to be checked: at a worker's
            # deadline, at the latest after a tick.
            deadlines = [
                one.deadline for one in workers if one.in_flight and one.deadline is not None
            ]
            check_at = min([self._checked + TICK, *deadlines])
            readable = self._selector.select(max(0.0, check_at - time.monotonic()))
            now = time.monotonic()
            due = now >= check_at
            if due:
                self._checked = now
                for worker in workers:
                    worker.drain()
            active = {key.data.number: key.data for key, _ in readable}
            for worker in workers if due else active.values():
                yield from self._handle_messages(worker)
                if due:
                    # After its messages, for its trial may have ended in time; whatever they are,
                    # for a worker that sends without end has limits, too.
                    worker.check()
                if worker.returncode is not None:
                    # Process its last messages first.
                    yield from self._handle_messages(worker)
                    yield from self._handle_death(worker, queue)

    def resume(self) -> None:
        """Start new trials again, after a stop without ``now``."""
        self._stopping = self._giving_up

    def close(self) -> None:
        """End all workers at once, with everything that they spawned."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            self._reap(worker)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._watchdog is not None:
            # Of a keeper that was killed, what its trials had started lives on.
            watchdog.kill_marked(self._mark)
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def _feed(self, worker: WorkerProcess, queue: TrialQueue, exclusive: bool) -> None:
        """Keep a worker busy."""
        # Half of them at once, so that both processes wake up less often.
        if self._stopping or len(worker.in_flight) > PREFETCH_TRIALS // 2:
            return
        ahead = sum(self._expected(task.trial) for task in worker.in_flight)
        tasks: list[Task] = []
        while True:
            waiting = len(worker.in_flight) + len(tasks)
            # Queued trials hide latency; behind long ones they would wait while other workers are
            # idle.
            if waiting and (exclusive or waiting >= PREFETCH_TRIALS or ahead >= PREFETCH_SECONDS):
                break
            trial = queue.take(worker.number)
            if trial is None:
                break
            tasks.append(Task(trial, exclusive))
            ahead += self._expected(trial)
        if tasks and not worker.alive:
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
            worker.start(self._folder)
            self._selector.register(worker, selectors.EVENT_READ, worker)
            if worker.pidfd is not None:
                self._selector.register(worker.pidfd, selectors.EVENT_READ, worker)
        for task in reversed(worker.send(tasks)):
            queue.put_back(worker.number, task.trial)

    def _expected(self, trial: Trial) -> float:
        """Return the seconds of a trial, as those of its cell that ended last."""
        return self._seconds.get(_cell(trial), PREFETCH_SECONDS)

    def _handle_messages(self, worker: WorkerProcess) -> Iterator[Event]:
        for message in worker.messages():
            match message:
                case ("ready",):
                    worker.ready = True
                    worker.started_at = time.monotonic()
                    self._failed_starts = 0
                case ("cramped", reason):
                    worker.kill(Status.MEMORY, reason)
                case ("batch", size):
                    worker.begin_batch(size)
                case ("fit", facts):
                    worker.begin_fit(facts)
                    yield Started(worker.in_flight[0].trial, worker.number)
                case ("done", record, retire):
                    worker.exiting = retire
                    seconds = time.monotonic() - worker.started_at
                    # Messages that arrive together: the later ones seem to have taken no time.
                    cell = _cell(record.trial)
                    self._seconds[cell] = max(seconds, self._seconds.get(cell, 0.0) / 2)
                    if output := worker.done():
                        record = replace(record, output_tail=(record.output_tail or "") + output)
                    if self._stopping:
                        # Otherwise the queued trial would start, and its messages would reach the
                        # next call of `run`; so wait for the worker, too.
                        worker.in_flight.clear()
                        worker.kill()
                        self._reap(worker)
                    yield Finished(record, worker.number)
                    if not worker.alive:
                        # Stopped: further messages are about trials that were put back.
                        return

    def _handle_death(self, worker: WorkerProcess, queue: TrialQueue) -> Iterator[Event]:
        """Yield the running trial's failure and put the others back."""
        returncode = self._reap(worker)
        in_flight = list(worker.in_flight)
        worker.in_flight.clear()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                last = (worker.tail() or "").strip().rpartition("\n")[2]
                msg = f"no worker can start: it {words_for_exit(returncode)}"
                msg += f" ({last})" if last else ""
                if self.limits.memory:
                    limit = f"{self.limits.memory / 2**20:,.0f} MiB"
                    msg += f"; the memory limit of {limit} may be too small"
                raise UsageError(msg)
        # The worker was stopped before the next trial began: put that trial back instead of
        # failing it.
        stopped = worker.killed or worker.exiting or not worker.ready
        at_fault = worker.kill_reason is not None or not stopped
        task = in_flight.pop(0) if in_flight and at_fault else None
        for waiting in reversed(in_flight):
            queue.put_back(worker.number, waiting.trial)
        if task is None:
            return
        # All replicates trained in this batch fail with it.
        batch_trials = queue.take_block(worker.number, task.trial) if worker.batch else []
        output = worker.tail()
        for trial in (task.trial, *batch_trials):
            record = failure_record(
                trial,
                worker.facts,
                batch=worker.batch,
                returncode=returncode,
                kill_reason=worker.kill_reason,
                output=output,
                exclusive=task.exclusive,
            )
            yield Finished(record, worker.number)

    def _reap(self, worker: WorkerProcess) -> int | None:
        if not worker.alive:
            return None
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(worker)
        if worker.pidfd is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(worker.pidfd)
        return worker.reap()


def _cell(trial: Trial) -> tuple[int, int]:
    # Compared by identity, which suffices within a plan; comparing contents would be slow.
    return id(trial.environment), id(trial.estimator)


_NO_ENTRY_POINTS = {"PYDANTIC_DISABLE_PLUGINS": "__all__", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
"""Without them, these libraries load what any installed package names as their plugin."""


@contextlib.contextmanager
def foreign_code_apart(
    *,
    hidden: Sequence[Path],
    threads: int = 1,
    arithmetic: Arithmetic | None = None,
    worlds: bool = False,
) -> Iterator[Processes]:
    """Load no class of another distribution or file: within the block, its own process does.

    Where something is missing for that, `Processes.missing` says so, and they are loaded here.

    Parameters
    ----------
    hidden : files and folders that foreign processes must not see.
    threads, arithmetic : as for the executor that runs the trials.
    worlds : whether environments of others are loaded here all the same.
    """
    mode, _ = choose_arithmetic(arithmetic)
    os.environ |= _NO_ENTRY_POINTS
    variables = {**thread_variables(threads), **arithmetic_variables(mode), "PYTHONHASHSEED": "0"}
    variables |= _NO_ENTRY_POINTS
    processes = Processes.launch(variables, hidden, worlds=worlds)
    registry.cache_clear()
    registry().stand_in = None if processes.missing else processes.stand_in
    try:
        yield processes
    finally:
        registry.cache_clear()
        processes.close()
