"""The part on a node of a Dask cluster: the workers of a run, and a watch for canceled chunks.

This code runs in the node's process. Trials do not: each worker is a process that can be killed,
as in a local run, and ends with the node.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ope_bench.execution import Arithmetic, Finished, Limits, Started
from ope_bench.execution.dask.connection import Question, examine_in_new_process
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import choose_arithmetic
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial, to_row
from ope_bench.trials.status import Plain

Row = tuple[int, float, tuple[Plain, ...]]
"""Number of the trial in the chunk, the seconds that it held its worker, its record."""

PATIENCE = 3.0
"""Seconds after which a chunk begins no new trial and gives the rest back."""

TICK = 0.2
IDLE = 60.0
"""Seconds after which unused workers end: their coordinator may be dead."""


@dataclass(frozen=True)
class RunSettings:
    """Settings for all chunks of a run.

    Parameters
    ----------
    mark : of the run.
    threads, limits : of each trial.
    arithmetic : kernels of the workers.
    """

    mark: str
    threads: int
    limits: Limits
    arithmetic: Arithmetic = "portable"

    @property
    def topic(self) -> str:
        """The topic under which nodes report started trials."""
        return f"ope-bench-{self.mark}"


@dataclass(frozen=True)
class Chunk:
    """Some trials for one node.

    Parameters
    ----------
    key : of the Dask task.
    number : number at the coordinator.
    trials : to run in this order.
    exclusive : nothing else runs at the same time.
    settings : of the run.
    """

    key: str
    number: int
    trials: tuple[Trial, ...]
    exclusive: bool
    settings: RunSettings


def examine(asked: Sequence[Question], arithmetic: Arithmetic) -> dict[str, Any]:
    """Return the facts of this node that the coordinator checks before it sends trials."""
    from distributed import get_worker

    worker = get_worker()
    return {
        **examine_in_new_process(asked, arithmetic),
        "arithmetic_note": "" if arithmetic == "native" else choose_arithmetic(None)[1],
        "host": socket.gethostname(),
        "threads": worker.state.nthreads,
        "gpus": int(worker.state.total_resources.get("GPU", 0)),
    }


def run_chunk(chunk: Chunk) -> list[Row]:
    """Run the trials; those without a row were not started."""
    from distributed import get_worker

    with _LOCK:
        state = _STATES.get(chunk.settings.mark)
        if state is None:
            state = _STATES[chunk.settings.mark] = NodeState(chunk.settings, get_worker())
            threading.Thread(target=state.watch, name="ope-bench-watch", daemon=True).start()
    worker_run = state.enter(chunk)
    try:
        return worker_run.run(chunk)
    finally:
        state.leave(worker_run)


def release(mark: str) -> None:
    """End the workers of a run."""
    state = _STATES.get(mark)
    if state is not None:
        state.released.set()


def ignore_sigint() -> None:
    """Leave Ctrl-C to the coordinator, which shares its terminal with nodes of its own."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


_STATES: dict[str, NodeState] = {}
_LOCK = threading.Lock()


@dataclass(eq=False)
class WorkerRun:
    """A worker and the chunk that it runs."""

    executor: LocalExecutor
    group: str = ""
    chunk: Chunk | None = None
    index: int = -1
    reported: int = -1
    abandoned: bool = False
    specs: dict[tuple[str, str], PluginSpec] = field(default_factory=dict)

    def run(self, chunk: Chunk) -> list[Row]:
        """Run the trials of a chunk; return their rows."""
        trials: list[Trial] = []
        for trial in chunk.trials:
            # Specs of earlier chunks, since executors compare cells by identity.
            environment, estimator = (
                self.specs.setdefault((spec.reference, spec.identity_json), spec)
                for spec in (trial.environment, trial.estimator)
            )
            trials.append(replace(trial, environment=environment, estimator=estimator))
        numbers = {id(trial): index for index, trial in enumerate(trials)}
        rows: list[Row] = []
        started_at = last = time.monotonic()
        for event in self.executor.run(trials, exclusive=chunk.exclusive):
            if isinstance(event, Started):
                self.index = numbers[id(event.trial)]
            elif isinstance(event, Finished):
                now = time.monotonic()
                trial = event.record.trial
                rows.append((numbers[id(trial)], now - last, to_row(event.record)))
                last, self.group = now, trial.group
                late = now - started_at > PATIENCE and len(rows) < len(trials)
                # The block is trained already, and would be trained again on another worker.
                if late and not trial.device.batched:
                    self.executor.stop()
        self.executor.resume()
        return rows


class NodeState:
    """The workers of one run on this node."""

    def __init__(self, settings: RunSettings, worker: Any) -> None:
        self.released = threading.Event()
        self._settings = settings
        self._worker = worker
        self._idle: list[WorkerRun] = []
        self._busy: list[WorkerRun] = []
        self._lock = threading.Lock()
        self._used = time.monotonic()

    def enter(self, chunk: Chunk) -> WorkerRun:
        """Return a free worker, preferably the one that last ran on the chunk's data."""
        group = chunk.trials[0].group
        with self._lock:
            if self._idle:
                known = [worker_run for worker_run in self._idle if worker_run.group == group]
                worker_run = (known or self._idle)[0]
                self._idle.remove(worker_run)
            else:
                settings = self._settings
                executor = LocalExecutor(
                    threads=settings.threads,
                    arithmetic=settings.arithmetic,
                    **vars(settings.limits),
                )
                worker_run = WorkerRun(executor)
            worker_run.chunk, worker_run.index, worker_run.reported = chunk, -1, -1
            self._busy.append(worker_run)
        return worker_run

    def leave(self, worker_run: WorkerRun) -> None:
        """Release the worker of an ended chunk."""
        with self._lock:
            worker_run.chunk = None
            self._busy.remove(worker_run)
            self._used = time.monotonic()
            if not (worker_run.abandoned or self.released.is_set()):
                self._idle.append(worker_run)
                return
        worker_run.executor.close()

    def watch(self) -> None:
        """Report running trials, abandon canceled chunks, and end unused workers."""
        while True:
            over = self.released.wait(TICK)
            with self._lock:
                for worker_run in self._busy:
                    chunk = worker_run.chunk
                    assert chunk is not None  # noqa: S101  it is busy
                    task = self._worker.state.tasks.get(chunk.key)
                    if self.released.is_set() or task is None or task.state == "cancelled":
                        # The coordinator canceled the chunk or disconnected.
                        worker_run.abandoned = True
                        worker_run.executor.stop(now=True)
                    if worker_run.index != worker_run.reported:
                        worker_run.reported = worker_run.index
                        started = [chunk.number, worker_run.reported]
                        with contextlib.suppress(RuntimeError):
                            self._worker.log_event(self._settings.topic, started)
                over |= not self._busy and time.monotonic() - self._used > IDLE
                if not over:
                    continue
                self.released.set()
                idle, self._idle = self._idle, []
            with _LOCK:
                _STATES.pop(self._settings.mark, None)
            for worker_run in idle:
                worker_run.executor.close()
            return
