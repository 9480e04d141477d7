"""The part in a Dask worker: the slots of a run, and a watch for canceled chunks.

This code runs in the worker's process. Trials do not: each slot is a process that can be killed,
as in a local run, and ends with the worker.
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

from ope_bench.execution import Finished, Limits, Started
from ope_bench.execution.cluster.compatibility import Question, examine_in_new_process
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.columns import Plain
from ope_bench.trials.record import Trial
from ope_bench.trials.serialization import to_row

__all__ = ["Chunk", "Row", "RunSettings", "examine", "ignore_sigint", "release", "run_chunk"]

Row = tuple[int, float, tuple[Plain, ...]]
"""Which trial of the chunk, the seconds that it held its slot, its record."""

PATIENCE = 3.0
"""Seconds after which a chunk begins no new trial and gives the rest back."""

TICK = 0.2
IDLE = 60.0
"""Seconds after which slots end that nobody has used: their coordinator may be dead."""


@dataclass(frozen=True)
class RunSettings:
    """Settings for all chunks of a run.

    Parameters
    ----------
    mark : of the run.
    threads, limits : of each trial.
    """

    mark: str
    threads: int
    limits: Limits

    @property
    def topic(self) -> str:
        """The topic under which workers report started trials."""
        return f"ope-bench-{self.mark}"


@dataclass(frozen=True)
class Chunk:
    """Some trials for one worker.

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


def examine(asked: Sequence[Question]) -> dict[str, Any]:
    """Return the facts of a worker that the coordinator checks before it sends trials."""
    from distributed import get_worker

    worker = get_worker()
    return {
        **examine_in_new_process(asked),
        "host": socket.gethostname(),
        "threads": worker.state.nthreads,
        "gpus": int(worker.state.total_resources.get("GPU", 0)),
    }


def run_chunk(chunk: Chunk) -> list[Row]:
    """Run the trials; those without a row were not started."""
    from distributed import get_worker

    state = _worker_state(chunk.settings, get_worker())
    slot_run = state.enter(chunk)
    try:
        return slot_run.run(chunk)
    finally:
        state.leave(slot_run)


def release(mark: str) -> None:
    """End the slots of a run."""
    state = _STATES.get(mark)
    if state is not None:
        state.released.set()


def ignore_sigint() -> None:
    """Leave Ctrl-C to the coordinator, which shares its terminal with workers of its own."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


_STATES: dict[str, WorkerState] = {}
_LOCK = threading.Lock()


def _worker_state(settings: RunSettings, worker: Any) -> WorkerState:
    with _LOCK:
        known = _STATES.get(settings.mark)
        if known is None:
            known = _STATES[settings.mark] = WorkerState(settings, worker)
            threading.Thread(target=known.watch, name="ope-bench-watch", daemon=True).start()
        return known


@dataclass(eq=False)
class SlotRun:
    """A slot and the chunk that it runs."""

    executor: LocalExecutor
    group: str = ""
    chunk: Chunk | None = None
    index: int = -1
    reported: int = -1
    abandoned: bool = False
    specs: dict[tuple[str, str], PluginSpec] = field(default_factory=dict)

    def run(self, chunk: Chunk) -> list[Row]:
        """Run the trials of a chunk; return their rows."""
        trials = [self._shared(trial) for trial in chunk.trials]
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

    def _shared(self, trial: Trial) -> Trial:
        """Replace a trial's specs by those of earlier chunks: cells are compared by identity."""
        environment, estimator = (
            self.specs.setdefault((spec.reference, spec.identity_json), spec)
            for spec in (trial.environment, trial.estimator)
        )
        return replace(trial, environment=environment, estimator=estimator)


class WorkerState:
    """The slots of one run in this worker."""

    def __init__(self, settings: RunSettings, worker: Any) -> None:
        self.released = threading.Event()
        self._settings = settings
        self._worker = worker
        self._idle: list[SlotRun] = []
        self._busy: list[SlotRun] = []
        self._lock = threading.Lock()
        self._used = time.monotonic()

    def enter(self, chunk: Chunk) -> SlotRun:
        """Return a free slot, preferably the one that last ran on the chunk's data."""
        group = chunk.trials[0].group
        with self._lock:
            if self._idle:
                known = [slot_run for slot_run in self._idle if slot_run.group == group]
                slot_run = (known or self._idle)[0]
                self._idle.remove(slot_run)
            else:
                slot_run = SlotRun(self._new_executor())
            slot_run.chunk, slot_run.index, slot_run.reported = chunk, -1, -1
            self._busy.append(slot_run)
        return slot_run

    def _new_executor(self) -> LocalExecutor:
        limits = self._settings.limits
        return LocalExecutor(
            1,
            threads=self._settings.threads,
            timeout=limits.timeout,
            memory=limits.memory,
            preparation=limits.preparation,
        )

    def leave(self, slot_run: SlotRun) -> None:
        """Release the slot of an ended chunk."""
        with self._lock:
            slot_run.chunk = None
            self._busy.remove(slot_run)
            self._used = time.monotonic()
            if not (slot_run.abandoned or self.released.is_set()):
                self._idle.append(slot_run)
                return
        slot_run.executor.close()

    def watch(self) -> None:
        """Report running trials, abandon canceled chunks, and end unused slots."""
        while True:
            over = self.released.wait(TICK)
            with self._lock:
                for slot_run in self._busy:
                    self._look_at(slot_run)
                over |= not self._busy and time.monotonic() - self._used > IDLE
                if not over:
                    continue
                self.released.set()
                idle, self._idle = self._idle, []
            with _LOCK:
                _STATES.pop(self._settings.mark, None)
            for slot_run in idle:
                slot_run.executor.close()
            return

    def _look_at(self, slot_run: SlotRun) -> None:
        chunk = slot_run.chunk
        assert chunk is not None  # noqa: S101  it is busy
        if self.released.is_set() or not self._wanted(chunk.key):
            # The coordinator canceled the chunk or disconnected.
            slot_run.abandoned = True
            slot_run.executor.stop(now=True)
        if slot_run.index != slot_run.reported:
            slot_run.reported = slot_run.index
            with contextlib.suppress(RuntimeError):
                self._worker.log_event(self._settings.topic, [chunk.number, slot_run.reported])

    def _wanted(self, key: str) -> bool:
        task = self._worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"
