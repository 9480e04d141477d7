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
    slot: WorkerSlot
    trials: list[Trial]
    seconds: float
    chunks: Chunks
    task: Sent
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
        self._connection: Connection | None = None
        self._workers = Workers({})
        self._sent: dict[int, _SentChunk] = {}
        self._seconds: dict[Cell, float] = {}
        self._count = 0
        self._looked = 0.0
        self._no_worker_since: float | None = None
        self._stopping = self._giving_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def machines(self) -> list[dict[str, Any]]:
        """Return the machines of the workers in use, with counts of equal ones."""
        return self._workers.facts()

    def connect(self) -> Connection:
        """Find and check the workers; a second call does nothing.

        Raises
        ------
        UsageError : there is no worker, or a worker's versions or code differ.
        """
        if self._connection is not None:
            return self._connection
        self._workers = Workers(findings(self._asked), self._most)
        connection = self._connection = connect(self._address, self.jobs)
        try:
            connection.listen(self._settings.topic)
            self._meet(connection)
        except BaseException:
            self.close()
            raise
        self.jobs = max(1, sum(not slot.gpu for slot in self._workers.slots))
        return connection

    def _meet(self, connection: Connection) -> None:
        """Wait for the first workers and their checks."""
        workers = self._workers
        end = time.monotonic() + min(self._patience, worker_side.IDLE)
        while not (there := connection.workers()) and not self._stopping:
            if time.monotonic() > end:
                msg = (
                    f"the Dask scheduler at {connection.address} has no workers; start some with "
                    f"`dask worker {connection.address}`"
                )
                raise UsageError(msg)
            time.sleep(TICK)
        self._examine(connection, there)
        end = time.monotonic() + EXAMINATION_SECONDS
        while workers.asked and not self._stopping:
            try:
                self._handle_check(connection.messages.get(timeout=TICK))
            except queue.Empty:
                for worker in workers.asked - connection.workers():
                    workers.remove(worker)
                if time.monotonic() > end:
                    for worker in list(workers.asked):
                        workers.accept_or_refuse(worker, None, "it does not answer")
        if workers.refused:
            raise UsageError(refusal(workers.refused))

    def _examine(self, connection: Connection, present: set[str]) -> None:
        for worker in sorted(present - self._workers.known):
            self._workers.asked.add(worker)
            if connection.own:
                connection.tell(worker, worker_side.ignore_sigint)
            key = f"ope-bench-examine-{uuid.uuid4().hex}"
            connection.send(worker, key, worker, worker_side.examine, self._asked)

    def _handle_check(self, message: Begun | Done) -> str | None:
        """Handle the result of a worker's check; return its address if it is refused."""
        if not isinstance(message, Done) or message.tag not in self._workers.asked:
            return None
        self._workers.accept_or_refuse(message.tag, message.result, message.problem)
        return message.tag if message.tag in self._workers.refused else None

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials and yield events.

        Raises
        ------
        UsageError : the scheduler is unreachable, or no worker is left for the remaining trials.
        """
        connection = self.connect()
        kinds = [
            (gpu, [trial for trial in trials if _on_gpu(trial) is gpu]) for gpu in (False, True)
        ]
        work = {gpu: Chunks(some, self._seconds) for gpu, some in kinds if some}
        if not exclusive:
            yield from self._run(connection, work, exclusive=False)
            return
        for gpu, chunks in work.items():
            yield from self._run(connection, {gpu: chunks}, exclusive=True)

    def _run(
        self, connection: Connection, work: dict[bool, Chunks], *, exclusive: bool
    ) -> Iterator[Event]:
        told = False
        while not self._giving_up:
            if self._stopping and not told:
                self._take_back()
                if self._sent:
                    told = True
                    yield Stopping(len(self._sent))
            elif not self._stopping:
                self._feed(connection, work, exclusive)
            if not self._sent and (self._stopping or not any(one.left for one in work.values())):
                return
            yield from self._handle_messages(connection)
            yield from self._look(connection)
            yield from self._wait_for_workers(work)

    def _feed(self, connection: Connection, work: dict[bool, Chunks], exclusive: bool) -> None:
        for gpu, chunks in work.items():
            slots = [slot for slot in self._workers.slots if slot.gpu is gpu]
            for slot in slots[: 1 if exclusive else None]:
                while len(slot.in_flight) < self._depth(slot, len(slots), exclusive) and (
                    trials := chunks.take(slot.number, len(slots))
                ):
                    self._send(connection, slot, trials, chunks, exclusive)

    def _depth(self, slot: WorkerSlot, slots: int, exclusive: bool) -> int:
        """Return the queue length of a slot: two if a waiting chunk hides latency.

        Behind a chunk of long or unknown time it would wait while other slots are idle; and a
        worker with free threads would run it at once.
        """
        if exclusive or not slot.in_flight or not self._workers.full(slot):
            return 1
        sent_chunk = self._sent[slot.in_flight[0]]
        unknown = math.isinf(sent_chunk.seconds) and sent_chunk.chunks.left > PLENTY * slots
        return 2 if unknown or sent_chunk.seconds <= SHORT else 1

    def _send(
        self,
        connection: Connection,
        slot: WorkerSlot,
        trials: list[Trial],
        chunks: Chunks,
        exclusive: bool,
    ) -> None:
        self._count += 1
        number = self._count
        key = f"{self._settings.topic}-{number}"
        chunk = worker_side.Chunk(key, number, tuple(trials), exclusive, self._settings)
        task = connection.send(
            slot.worker, key, number, worker_side.run_chunk, chunk, gpu=slot.gpu
        )
        seconds = chunks.expected(trials)
        self._sent[number] = _SentChunk(slot, trials, seconds, chunks, task, exclusive)
        slot.in_flight.append(number)

    def _handle_messages(self, connection: Connection) -> Iterator[Event]:
        """Process messages that have arrived, after waiting at most one tick."""
        patience = TICK
        while True:
            try:
                message = connection.messages.get(timeout=patience)
            except queue.Empty:
                return
            # Process all messages that are available now.
            patience = 0.0
            if isinstance(message, Begun):
                if (sent_chunk := self._sent.get(message.chunk)) is not None:
                    yield Started(sent_chunk.trials[message.index], sent_chunk.slot.number)
            elif isinstance(message.tag, int):
                yield from self._done(message)
            elif (refused := self._handle_check(message)) is not None:
                reason = self._workers.refused[refused]
                yield Message(f"not used: {refusal({refused: reason})}")

    def _done(self, message: Done) -> Iterator[Event]:
        sent_chunk = self._sent.get(message.tag)
        if sent_chunk is None:
            return
        if message.result is None:
            worker = sent_chunk.slot.worker
            if message.refused:
                yield Message(f"no longer used: worker {worker}: {message.problem}")
                yield from self._lost(self._workers.refuse(worker, message.problem), "")
            else:
                del self._sent[message.tag]
                sent_chunk.slot.in_flight.remove(message.tag)
                yield from self._retry_or_fail(sent_chunk, message.problem)
            return
        del self._sent[message.tag]
        sent_chunk.slot.in_flight.remove(message.tag)
        rest = dict(enumerate(sent_chunk.trials))
        for index, seconds, row in message.result:
            trial = rest.pop(index)
            sent_chunk.chunks.learned(trial, seconds)
            yield Finished(from_row(trial, row), sent_chunk.slot.number)
        sent_chunk.chunks.put_back(sent_chunk.slot.number, list(rest.values()))

    def _look(self, connection: Connection) -> Iterator[Event]:
        """Process joined and lost workers."""
        if time.monotonic() < self._looked + SECONDS_BETWEEN_LOOKS:
            return
        self._looked = time.monotonic()
        try:
            there = connection.workers()
        except ConnectionError:
            return
        self._examine(connection, there)
        for worker in self._workers.known - there:
            used = worker in self._workers.found
            slots = self._workers.remove(worker)
            if used:
                yield Message(f"worker {worker} is lost; what it ran runs again elsewhere")
            yield from self._lost(slots, f"worker {worker} was lost")

    def _lost(self, slots: list[WorkerSlot], reason: str) -> Iterator[Event]:
        """Handle lost slots; without a reason, no trial caused the loss."""
        for slot in slots:
            for position, number in enumerate(slot.in_flight):
                sent_chunk = self._sent.pop(number)
                sent_chunk.task.cancel()
                if position == 0 and reason:
                    yield from self._retry_or_fail(sent_chunk, reason)
                else:
                    sent_chunk.chunks.put_back(slot.number, sent_chunk.trials)
            slot.in_flight.clear()

    def _retry_or_fail(self, sent_chunk: _SentChunk, reason: str) -> Iterator[Event]:
        """Handle a chunk whose worker was lost: retry trials singly, up to `MOST_LOSSES` times."""
        for trial in sent_chunk.chunks.lost(sent_chunk.trials, MOST_LOSSES):
            told = f"{reason} while it ran; given up after {MOST_LOSSES} times"
            record = failure_record(
                trial,
                None,
                returncode=None,
                kill_reason=(Status.CRASH, told),
                output=None,
                exclusive=sent_chunk.exclusive,
            )
            yield Finished(record, sent_chunk.slot.number)

    def _wait_for_workers(self, work: dict[bool, Chunks]) -> Iterator[Event]:
        """Wait for workers, for a limited time."""
        workers = self._workers
        needed = {gpu for gpu, chunks in work.items() if chunks.left}
        if self._sent or not needed - {slot.gpu for slot in workers.slots}:
            self._no_worker_since = None
            return
        what = "offers a GPU (`dask worker --resources GPU=1`)" if workers.slots else "is left"
        if self._no_worker_since is None:
            self._no_worker_since = time.monotonic()
            yield Message(f"no worker {what}; waiting for one to join")
        if time.monotonic() - self._no_worker_since > self._patience or (
            workers.refused and not workers.found and not workers.asked
        ):
            why = f"; {refusal(workers.refused)}" if workers.refused else ""
            msg = f"no worker {what}{why}; all that had finished is stored"
            raise UsageError(msg)

    def _take_back(self) -> None:
        """Take back chunks that have not started."""
        for slot in self._workers.slots:
            for number in slot.in_flight[1:]:
                self._sent.pop(number).task.cancel()
            del slot.in_flight[1:]

    def stop(self, *, now: bool = False) -> None:
        """Start no new chunk; running ones are finished or, with ``now``, abandoned."""
        self._stopping = True
        self._giving_up |= now

    def close(self) -> None:
        """Disconnect from the cluster; running trials are abandoned."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        for sent_chunk in self._sent.values():
            sent_chunk.task.cancel()
        self._sent.clear()
        for worker in self._workers.found:
            connection.tell(worker, worker_side.release, self._settings.mark)
        connection.close()


def _on_gpu(trial: Trial) -> bool:
    return trial.device.backend == "cuda"
