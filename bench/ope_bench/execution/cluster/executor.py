"""The executor of ``--executor dask``: sends chunks to workers and receives rows."""

from __future__ import annotations

import math
import queue
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ope_bench.errors import UsageError
from ope_bench.execution import Event, Finished, Limits, Message, Started, Stopping
from ope_bench.execution.cluster import worker_side
from ope_bench.execution.cluster.chunks import Cell, Chunks
from ope_bench.execution.cluster.compatibility import findings, questions
from ope_bench.execution.cluster.connection import Begun, Connection, Done, Sent, connect
from ope_bench.execution.cluster.workers import Workers, WorkerSlot, refusal
from ope_bench.execution.worker_failure import failure_record
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial
from ope_bench.trials.serialization import from_row
from ope_bench.trials.status import Status

__all__ = ["DaskExecutor"]

TICK = 0.05
SECONDS_BETWEEN_LOOKS = 0.5
"""How often the coordinator asks the scheduler who is there."""

EXAMINATION_SECONDS = 180.0
MOST_LOSSES = 3
SHORT = 1.0
"""Seconds of a chunk behind which the next one may already wait with the worker."""

PLENTY = 4
"""Trials left for each slot from which on it does not matter where one of them waits."""


@dataclass(frozen=True)
class _SentChunk:
    lane: WorkerSlot
    trials: list[Trial]
    seconds: float
    chunks: Chunks
    sent: Sent
    exclusive: bool


class DaskExecutor:
    """Runs trials on the workers of a Dask cluster, each in killable slots of its own.

    Every worker is checked before its first trial: versions and code must be those of this
    process. A trial whose worker is lost is retried on another one; after `MOST_LOSSES` losses its
    status is a crash.

    Parameters
    ----------
    plugins : plugins of the plan, which are compared with the workers'.
    address : address of the scheduler, None for a local cluster.
    jobs : number of slots; None for all of an external cluster.
    threads : a trial.
    timeout, memory, preparation : as in `LocalExecutor`.
    patience : seconds to wait for a worker if there is none.
    """

    def __init__(
        self,
        plugins: Sequence[PluginSpec],
        *,
        address: str | None = None,
        jobs: int | None = None,
        threads: int = 1,
        timeout: float | None = None,
        memory: int | None = None,
        preparation: float = 600.0,
        patience: float = 300.0,
    ) -> None:
        self.jobs = jobs or 1
        self.limits = Limits(timeout=timeout, memory=memory, preparation=preparation)
        self._most = jobs
        self._address = address
        self._asked = questions(plugins)
        self._settings = worker_side.RunSettings(uuid.uuid4().hex, threads, self.limits)
        self._patience = patience
        self._line: Connection | None = None
        self._members = Workers({})
        self._way: dict[int, _SentChunk] = {}
        self._seconds: dict[Cell, float] = {}
        self._count = 0
        self._looked = 0.0
        self._lonely_since: float | None = None
        self._stopping = self._giving_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def machines(self) -> list[dict[str, Any]]:
        """Return the machines of the workers in use, with counts of equal ones."""
        return self._members.facts()

    def connect(self) -> Connection:
        """Find and check the workers; a second call does nothing.

        Raises
        ------
        UsageError : there is no worker, or a worker's versions or code differ.
        """
        if self._line is not None:
            return self._line
        self._members = Workers(findings(self._asked), self._most)
        line = self._line = connect(self._address, self.jobs)
        try:
            line.listen(self._settings.topic)
            self._meet(line)
        except BaseException:
            self.close()
            raise
        self.jobs = max(1, sum(not lane.gpu for lane in self._members.lanes))
        return line

    def _meet(self, line: Connection) -> None:
        """Wait for the first workers and their checks."""
        members = self._members
        end = time.monotonic() + min(self._patience, worker_side.IDLE)
        while not (there := line.workers()) and not self._stopping:
            if time.monotonic() > end:
                msg = (
                    f"the Dask scheduler at {line.address} has no workers; start some with "
                    f"`dask worker {line.address}`"
                )
                raise UsageError(msg)
            time.sleep(TICK)
        self._examine(line, there)
        end = time.monotonic() + EXAMINATION_SECONDS
        while members.asked and not self._stopping:
            try:
                self._answered(line.messages.get(timeout=TICK))
            except queue.Empty:
                for worker in members.asked - line.workers():
                    members.gone(worker)
                if time.monotonic() > end:
                    for worker in list(members.asked):
                        members.answered(worker, None, "it does not answer")
        if members.refused:
            raise UsageError(refusal(members.refused))

    def _examine(self, line: Connection, workers: set[str]) -> None:
        for worker in sorted(workers - self._members.known):
            self._members.asked.add(worker)
            if line.own:
                line.tell(worker, worker_side.ignore_sigint)
            key = f"ope-bench-examine-{uuid.uuid4().hex}"
            line.send(worker, key, worker, worker_side.examine, self._asked)

    def _answered(self, message: Begun | Done) -> str | None:
        """Handle the result of a worker's check; return its address if it is refused."""
        if not isinstance(message, Done) or message.tag not in self._members.asked:
            return None
        self._members.answered(message.tag, message.result, message.problem)
        return message.tag if message.tag in self._members.refused else None

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials and yield events.

        Raises
        ------
        UsageError : the scheduler is unreachable, or no worker is left for the remaining trials.
        """
        line = self.connect()
        kinds = [
            (gpu, [trial for trial in trials if _on_gpu(trial) is gpu]) for gpu in (False, True)
        ]
        work = {gpu: Chunks(some, self._seconds) for gpu, some in kinds if some}
        if not exclusive:
            yield from self._run(line, work, exclusive=False)
            return
        for gpu, chunks in work.items():
            yield from self._run(line, {gpu: chunks}, exclusive=True)

    def _run(
        self, line: Connection, work: dict[bool, Chunks], *, exclusive: bool
    ) -> Iterator[Event]:
        told = False
        while not self._giving_up:
            if self._stopping and not told:
                self._take_back()
                if self._way:
                    told = True
                    yield Stopping(len(self._way))
            elif not self._stopping:
                self._feed(line, work, exclusive)
            if not self._way and (self._stopping or not any(one.left for one in work.values())):
                return
            yield from self._heard(line)
            yield from self._look(line)
            yield from self._wait_for_workers(work)

    def _feed(self, line: Connection, work: dict[bool, Chunks], exclusive: bool) -> None:
        for gpu, chunks in work.items():
            lanes = [lane for lane in self._members.lanes if lane.gpu is gpu]
            for lane in lanes[: 1 if exclusive else None]:
                while len(lane.flight) < self._depth(lane, len(lanes), exclusive) and (
                    trials := chunks.take(lane.number, len(lanes))
                ):
                    self._send(line, lane, trials, chunks, exclusive)

    def _depth(self, lane: WorkerSlot, slots: int, exclusive: bool) -> int:
        """Return the queue length of a lane: two if a waiting chunk hides latency.

        Behind a chunk of long or unknown time it would wait while other slots are idle; and a
        worker with free threads would run it at once.
        """
        if exclusive or not lane.flight or not self._members.full(lane):
            return 1
        way = self._way[lane.flight[0]]
        unknown = math.isinf(way.seconds) and way.chunks.left > PLENTY * slots
        return 2 if unknown or way.seconds <= SHORT else 1

    def _send(
        self,
        line: Connection,
        lane: WorkerSlot,
        trials: list[Trial],
        chunks: Chunks,
        exclusive: bool,
    ) -> None:
        self._count += 1
        number = self._count
        key = f"{self._settings.topic}-{number}"
        chunk = worker_side.Chunk(key, number, tuple(trials), exclusive, self._settings)
        sent = line.send(lane.worker, key, number, worker_side.run_chunk, chunk, gpu=lane.gpu)
        seconds = chunks.expected(trials)
        self._way[number] = _SentChunk(lane, trials, seconds, chunks, sent, exclusive)
        lane.flight.append(number)

    def _heard(self, line: Connection) -> Iterator[Event]:
        """Process messages that have arrived, after waiting at most one tick."""
        patience = TICK
        while True:
            try:
                message = line.messages.get(timeout=patience)
            except queue.Empty:
                return
            # Process all messages that are available now.
            patience = 0.0
            if isinstance(message, Begun):
                if (way := self._way.get(message.chunk)) is not None:
                    yield Started(way.trials[message.index], way.lane.number)
            elif isinstance(message.tag, int):
                yield from self._done(message)
            elif (refused := self._answered(message)) is not None:
                reason = self._members.refused[refused]
                yield Message(f"not used: {refusal({refused: reason})}")

    def _done(self, message: Done) -> Iterator[Event]:
        way = self._way.get(message.tag)
        if way is None:
            return
        if message.result is None:
            worker = way.lane.worker
            if message.refused:
                yield Message(f"no longer used: worker {worker}: {message.problem}")
                yield from self._lost(self._members.refuse(worker, message.problem), "")
            else:
                del self._way[message.tag]
                way.lane.flight.remove(message.tag)
                yield from self._retry_or_fail(way, message.problem)
            return
        del self._way[message.tag]
        way.lane.flight.remove(message.tag)
        rest = dict(enumerate(way.trials))
        for index, seconds, row in message.result:
            trial = rest.pop(index)
            way.chunks.learned(trial, seconds)
            yield Finished(from_row(trial, row), way.lane.number)
        way.chunks.put_back(way.lane.number, list(rest.values()))

    def _look(self, line: Connection) -> Iterator[Event]:
        """Process joined and lost workers."""
        if time.monotonic() < self._looked + SECONDS_BETWEEN_LOOKS:
            return
        self._looked = time.monotonic()
        try:
            there = line.workers()
        except ConnectionError:
            return
        self._examine(line, there)
        for worker in self._members.known - there:
            used = worker in self._members.found
            lanes = self._members.gone(worker)
            if used:
                yield Message(f"worker {worker} is lost; what it ran runs again elsewhere")
            yield from self._lost(lanes, f"worker {worker} was lost")

    def _lost(self, lanes: list[WorkerSlot], reason: str) -> Iterator[Event]:
        """Handle lost lanes; without a reason, no trial caused the loss."""
        for lane in lanes:
            for place, number in enumerate(lane.flight):
                way = self._way.pop(number)
                way.sent.cancel()
                if place == 0 and reason:
                    yield from self._retry_or_fail(way, reason)
                else:
                    way.chunks.put_back(lane.number, way.trials)
            lane.flight.clear()

    def _retry_or_fail(self, way: _SentChunk, reason: str) -> Iterator[Event]:
        """Handle a chunk whose worker was lost: retry trials singly, up to `MOST_LOSSES` times."""
        for trial in way.chunks.lost(way.trials, MOST_LOSSES):
            told = f"{reason} while it ran; given up after {MOST_LOSSES} times"
            record = failure_record(
                trial,
                None,
                returncode=None,
                verdict=(Status.CRASH, told),
                output=None,
                exclusive=way.exclusive,
            )
            yield Finished(record, way.lane.number)

    def _wait_for_workers(self, work: dict[bool, Chunks]) -> Iterator[Event]:
        """Wait for workers, for a limited time."""
        members = self._members
        needed = {gpu for gpu, chunks in work.items() if chunks.left}
        if self._way or not needed - {lane.gpu for lane in members.lanes}:
            self._lonely_since = None
            return
        what = "offers a GPU (`dask worker --resources GPU=1`)" if members.lanes else "is left"
        if self._lonely_since is None:
            self._lonely_since = time.monotonic()
            yield Message(f"no worker {what}; waiting for one to join")
        if time.monotonic() - self._lonely_since > self._patience or (
            members.refused and not members.found and not members.asked
        ):
            why = f"; {refusal(members.refused)}" if members.refused else ""
            msg = f"no worker {what}{why}; all that had finished is stored"
            raise UsageError(msg)

    def _take_back(self) -> None:
        """Take back chunks that have not started."""
        for lane in self._members.lanes:
            for number in lane.flight[1:]:
                self._way.pop(number).sent.cancel()
            del lane.flight[1:]

    def stop(self, *, now: bool = False) -> None:
        """Start no new chunk; running ones are finished or, with ``now``, abandoned."""
        self._stopping = True
        self._giving_up |= now

    def close(self) -> None:
        """Disconnect from the cluster; running trials are abandoned."""
        line, self._line = self._line, None
        if line is None:
            return
        for way in self._way.values():
            way.sent.cancel()
        self._way.clear()
        for worker in self._members.found:
            line.tell(worker, worker_side.release, self._settings.mark)
        line.close()


def _on_gpu(trial: Trial) -> bool:
    return trial.device.backend == "cuda"
