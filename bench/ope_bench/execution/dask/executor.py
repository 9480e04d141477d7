"""The executor of ``--executor dask``: chunks of trials go to workers, rows come back."""

from __future__ import annotations

import itertools
import math
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
)
from ope_bench.execution.dask import worker_side
from ope_bench.execution.dask.connection import (
    Begun,
    Connection,
    Done,
    connect,
    findings,
    mismatches,
    questions,
    remedy,
)
from ope_bench.execution.local import TrialQueue
from ope_bench.execution.machine import choose_arithmetic
from ope_bench.execution.worker_process import failure_record
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial, from_row
from ope_bench.trials.status import Status

# Cut trials into chunks: long enough to hide latency, short enough to balance load.

TARGET = 0.5
"""Seconds of work in a chunk: a hundred times what sending one costs."""

MOST = 256

Cell = tuple[str, str, str]
"""Environment, estimator, device."""


class Chunks:
    """A queue that hands out several trials at once.

    A chunk has one trial of a kind without known times, and a whole block of replicates that are
    trained together. Toward the end chunks get smaller, so that no worker waits for the last chunk
    of another.

    Parameters
    ----------
    trials : the trials; those of a group are adjacent.
    seconds : mean time of trials by kind, updated during the run; the kind of a trial is its
        `Cell`.
    """

    def __init__(self, trials: Sequence[Trial], seconds: dict[Cell, float]) -> None:
        self.left = len(trials)
        self.losses: Counter[str] = Counter()
        """How many workers were lost while they may have run a trial, by key."""
        self._queue = TrialQueue(trials)
        self._suspects: deque[list[Trial]] = deque()
        self._seconds = seconds

    def take(self, worker: int, workers: int) -> list[Trial]:
        """Return the next chunk for one of the workers, empty when none is left."""
        most = min(MOST, math.ceil(self.left / (2 * workers)))
        chunk: list[Trial] = []
        seconds = 0.0
        while (trial := self._queue.take(worker)) is not None:
            expected = self._seconds.get(_cell(trial), TARGET)
            full = len(chunk) >= most or seconds + expected > TARGET
            if chunk and trial.device.batched:
                # Replicates that are trained together stay together.
                full = chunk[-1].group != trial.group or not chunk[-1].device.batched
            if chunk and full:
                self._queue.put_back(worker, trial)
                break
            chunk.append(trial)
            seconds += expected
        if not chunk and self._suspects:
            # Suspects run last, so that a trial that kills its worker delays no other trial.
            chunk = self._suspects.popleft()
        self.left -= len(chunk)
        return chunk

    def expected(self, trials: Iterable[Trial]) -> float:
        """Predict the seconds of trials; infinite where unknown."""
        return sum(self._seconds.get(_cell(trial), math.inf) for trial in trials)

    def put_back(self, worker: int, trials: Sequence[Trial]) -> None:
        """Put back trials that were taken but not started."""
        for trial in reversed(trials):
            self._queue.put_back(worker, trial)
        self.left += len(trials)

    def lost(self, trials: Sequence[Trial], most: int) -> list[Trial]:
        """Record trials of which one may have killed its worker.

        Each runs alone from now on, to find the one; returns those that were lost ``most`` times
        and are not retried.
        """
        self.losses.update(trial.key for trial in trials)
        gone = [trial for trial in trials if self.losses[trial.key] >= most]
        rest = [trial for trial in trials if self.losses[trial.key] < most]
        if rest and rest[0].device.batched:
            self._suspects.append(rest)
        else:
            self._suspects += ([trial] for trial in rest)
        self.left += len(rest)
        return gone

    def learned(self, trial: Trial, seconds: float) -> None:
        """Record the time of a trial."""
        cell = _cell(trial)
        known = self._seconds.get(cell, seconds)
        self._seconds[cell] = (known + seconds) / 2


def _cell(trial: Trial) -> Cell:
    return trial.environment.identity_json, trial.estimator.identity_json, trial.device


# The nodes of the cluster: which may run trials, and their workers.


@dataclass(eq=False)
class TrialWorker:
    """A worker on a node, which runs one trial at a time.

    Parameters
    ----------
    number : the smallest free number, for the progress display.
    node : address of the node.
    gpu : for trials on a GPU, else for those on the CPU.
    in_flight : numbers of the submitted chunks without result; the first one runs.
    """

    number: int
    node: str
    gpu: bool
    in_flight: list[int] = field(default_factory=list)


class Nodes:
    """Known nodes (Dask calls them workers): accepted, unchecked or refused.

    Parameters
    ----------
    here : findings of the coordinator.
    most : largest number of workers for the CPU, None for all.
    """

    def __init__(self, here: Mapping[str, Any], most: int | None = None) -> None:
        self.here = here
        self.workers: list[TrialWorker] = []
        self.found: dict[str, Mapping[str, Any]] = {}
        """Findings of the nodes in use."""
        self.refused: dict[str, str] = {}
        """Reasons why nodes are not used."""
        self.asked: set[str] = set()
        """Nodes that have not answered yet."""
        self._most = most

    @property
    def known(self) -> set[str]:
        """Return all nodes that are connected."""
        return {*self.found, *self.refused, *self.asked}

    def full(self, worker: TrialWorker) -> bool:
        """Return whether the worker's node has no free thread."""
        own = [one for one in self.workers if one.node == worker.node and one.gpu is worker.gpu]
        return worker.gpu or len(own) >= self.found[worker.node]["threads"]

    def accept_or_refuse(
        self, node: str, answer: Mapping[str, Any] | None, problem: str = ""
    ) -> None:
        """Accept or refuse a node after its check."""
        self.asked.discard(node)
        if answer is None:
            self.refused[node] = f"{problem}; {remedy(self.here, None)}"
        elif wrong := mismatches(self.here, answer):
            self.refused[node] = f"{', '.join(wrong)}; {remedy(self.here, answer)}"
        else:
            self.found[node] = answer
            self._open(node, answer["threads"], gpu=False)
            self._open(node, answer["gpus"], gpu=True)

    def _open(self, node: str, count: int, *, gpu: bool) -> None:
        if self._most is not None and not gpu:
            count = min(count, self._most - sum(not worker.gpu for worker in self.workers))
        taken = {worker.number for worker in self.workers}
        free = (number for number in itertools.count() if number not in taken)
        self.workers += [
            TrialWorker(number, node, gpu) for number in itertools.islice(free, max(0, count))
        ]

    def remove(self, node: str) -> list[TrialWorker]:
        """Remove a node; return its workers with their chunks in flight."""
        self.asked.discard(node)
        self.refused.pop(node, None)
        self.found.pop(node, None)
        workers = [worker for worker in self.workers if worker.node == node]
        self.workers = [worker for worker in self.workers if worker.node != node]
        return workers


def refusal(refused: Mapping[str, str]) -> str:
    """Describe all refused nodes in one line.

    >>> refusal({"tcp://a:1": "numpy 2.3.0 there, 2.4.1 here; pip install numpy==2.4.1"})
    'worker tcp://a:1: numpy 2.3.0 there, 2.4.1 here; pip install numpy==2.4.1'
    """
    reasons: dict[str, list[str]] = {}
    for node, reason in sorted(refused.items()):
        reasons.setdefault(reason, []).append(node)
    lines = []
    for reason, nodes in reasons.items():
        plural = "s" if len(nodes) > 1 else ""
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        lines.append(f"worker{plural} {', '.join(nodes[:3])}{more}: {reason}")
    return " | ".join(lines)


# Send chunks to workers and receive rows.

TICK = 0.05
SECONDS_BETWEEN_LOOKS = 0.5
"""Seconds between two requests of the coordinator for the scheduler's list of workers."""

EXAMINATION_SECONDS = 180.0
MOST_LOSSES = 3
SHORT = 1.0
"""Seconds of a chunk behind which the next one may already wait with the node."""

PLENTY = 4
"""Trials left for each worker from which on it does not matter where one of them waits."""


@dataclass(frozen=True)
class _SentChunk:
    worker: TrialWorker
    trials: list[Trial]
    seconds: float
    chunks: Chunks
    cancel: Callable[[], None]
    exclusive: bool


class DaskExecutor(Executor):
    """Runs trials on a Dask cluster, in workers on its nodes that can be killed.

    Every node is checked before its first trial: versions and code must be those of this process.
    A trial whose node is lost is retried on another one; after `MOST_LOSSES` losses its status is
    a crash.

    Parameters
    ----------
    plugins : plugins of the plan, which are compared with those of the nodes.
    address : address of the scheduler, None for a local cluster.
    jobs : number of workers; None for all of an external cluster.
    threads : of each trial.
    timeout, memory, preparation, arithmetic : as in `LocalExecutor`.
    patience : seconds to wait for a node if there is none.
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
        arithmetic: Arithmetic | None = None,
    ) -> None:
        self.arithmetic = arithmetic or "portable"
        if address is None:  # the nodes are processes of this machine
            self.arithmetic, self.arithmetic_note = choose_arithmetic(arithmetic)
        self._may_be_native = arithmetic is None
        self.jobs = jobs or 1
        self.limits = Limits(timeout=timeout, memory=memory, preparation=preparation)
        self._most = jobs
        self._address = address
        self._asked = questions(plugins)
        self._settings = worker_side.RunSettings(
            uuid.uuid4().hex, threads, self.limits, self.arithmetic
        )
        self._patience = patience
        self._connection: Connection | None = None
        self._nodes = Nodes({})
        self._sent: dict[int, _SentChunk] = {}
        self._seconds: dict[Cell, float] = {}
        self._count = 0
        self._looked = 0.0
        self._told = False
        self._no_worker_since: float | None = None

    @property
    def machines(self) -> list[dict[str, Any]]:
        """Return the machines of the nodes in use, with counts of equal ones."""
        kinds: dict[str, dict[str, Any]] = {}
        for answer in self._nodes.found.values():
            machine = answer["machine"]
            kind = kinds.setdefault(repr(machine), {**machine, "workers": 0, "slots": 0})
            kind["workers"] += 1
            kind["slots"] += answer["threads"]
        return list(kinds.values())

    def connect(self) -> Connection:
        """Find and check the nodes; a second call does nothing.

        Raises
        ------
        UsageError : there is no node, or a node's versions or code differ.
        """
        if self._connection is not None:
            return self._connection
        here = findings(self._asked)
        self._nodes = Nodes(here, self._most)
        connection = self._connection = connect(self._address, self.jobs)
        try:
            connection.listen(self._settings.topic)
            self._check_nodes(connection)
            wrong = sorted(
                f"worker {node}: {note}"
                for node, answer in self._nodes.found.items()
                if (note := answer["arithmetic_note"])
            )
            if wrong:
                # All nodes again, which tell their kernels.
                self.arithmetic, self.arithmetic_note = "native", wrong[0]
                self._settings = replace(self._settings, arithmetic="native")
                self._nodes = Nodes(here, self._most)
                self._check_nodes(connection)
        except BaseException:
            self.close()
            raise
        self._may_be_native = False
        self.jobs = max(1, sum(not worker.gpu for worker in self._nodes.workers))
        return connection

    def _check_nodes(self, connection: Connection) -> None:
        """Wait for the first nodes, then for their checks."""
        nodes = self._nodes
        end = time.monotonic() + min(self._patience, worker_side.IDLE)
        while not (there := connection.nodes()) and not self._stopping:
            if time.monotonic() > end:
                where = connection.address
                msg = (
                    f"the Dask scheduler at {where} has no workers; "
                    f"start some with `dask worker {where}`"
                )
                raise UsageError(msg)
            time.sleep(TICK)
        self._examine(connection, there)
        end = time.monotonic() + EXAMINATION_SECONDS
        while nodes.asked and not self._stopping:
            try:
                self._handle_check(connection.messages.get(timeout=TICK))
            except queue.Empty:
                for node in nodes.asked - connection.nodes():
                    nodes.remove(node)
                if time.monotonic() > end:
                    for node in list(nodes.asked):
                        nodes.accept_or_refuse(node, None, "it does not answer")
        if nodes.refused:
            raise UsageError(refusal(nodes.refused))

    def _examine(self, connection: Connection, present: set[str]) -> None:
        for node in sorted(present - self._nodes.known):
            self._nodes.asked.add(node)
            if connection.own:
                connection.tell(node, worker_side.ignore_sigint)
            key = f"ope-bench-examine-{uuid.uuid4().hex}"
            settings = self._asked, self._settings.arithmetic
            connection.send(node, key, node, worker_side.examine, *settings)

    def _handle_check(self, message: Begun | Done) -> str | None:
        """Handle the result of a node's check; return its address if it is refused."""
        if not isinstance(message, Done) or message.tag not in self._nodes.asked:
            return None
        answer, problem = message.result, message.problem
        if answer and not self._may_be_native and (note := answer["arithmetic_note"]):
            answer, problem = None, note
        self._nodes.accept_or_refuse(message.tag, answer, problem)
        return message.tag if message.tag in self._nodes.refused else None

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials and yield events.

        Raises
        ------
        UsageError : the scheduler is unreachable, or no node is left for the remaining trials.
        """
        connection = self.connect()
        if self.arithmetic_note and not self._told:
            self._told = True
            yield Message(self.arithmetic_note)
        kinds: dict[bool, list[Trial]] = {False: [], True: []}
        for trial in trials:
            kinds[trial.device.backend == "cuda"].append(trial)
        work = {gpu: Chunks(some, self._seconds) for gpu, some in kinds.items() if some}
        parts = [{gpu: chunks} for gpu, chunks in work.items()] if exclusive else [work]
        for part in parts:
            told = False
            while not self._giving_up:
                if self._stopping and not told:
                    # Take back chunks that have not started.
                    for worker in self._nodes.workers:
                        for number in worker.in_flight[1:]:
                            self._sent.pop(number).cancel()
                        del worker.in_flight[1:]
                    if self._sent:
                        told = True
                        yield Stopping(len(self._sent))
                elif not self._stopping:
                    self._feed(connection, part, exclusive)
                left = any(chunks.left for chunks in part.values())
                if not self._sent and (self._stopping or not left):
                    break
                yield from self._handle_messages(connection)
                yield from self._look(connection)
                yield from self._wait_for_workers(part)

    def _feed(self, connection: Connection, work: dict[bool, Chunks], exclusive: bool) -> None:
        for gpu, chunks in work.items():
            workers = [worker for worker in self._nodes.workers if worker.gpu is gpu]
            for worker in workers[: 1 if exclusive else None]:
                while len(worker.in_flight) < self._depth(worker, len(workers), exclusive) and (
                    trials := chunks.take(worker.number, len(workers))
                ):
                    self._count = number = self._count + 1
                    key = f"{self._settings.topic}-{number}"
                    chunk = worker_side.Chunk(
                        key, number, tuple(trials), exclusive, self._settings
                    )
                    cancel = connection.send(
                        worker.node, key, number, worker_side.run_chunk, chunk, gpu=gpu
                    )
                    seconds = chunks.expected(trials)
                    self._sent[number] = _SentChunk(
                        worker, trials, seconds, chunks, cancel, exclusive
                    )
                    worker.in_flight.append(number)

    def _depth(self, worker: TrialWorker, workers: int, exclusive: bool) -> int:
        """Return the queue length of a worker: two if a waiting chunk hides latency.

        Behind a chunk of long or unknown time it would wait while other workers are idle; and a
        node with free threads would run it at once.
        """
        if exclusive or not worker.in_flight or not self._nodes.full(worker):
            return 1
        sent_chunk = self._sent[worker.in_flight[0]]
        unknown = math.isinf(sent_chunk.seconds) and sent_chunk.chunks.left > PLENTY * workers
        return 2 if unknown or sent_chunk.seconds <= SHORT else 1

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
                    yield Started(sent_chunk.trials[message.index], sent_chunk.worker.number)
            elif isinstance(message.tag, int):
                yield from self._done(message)
            elif (refused := self._handle_check(message)) is not None:
                reason = self._nodes.refused[refused]
                yield Message(f"not used: {refusal({refused: reason})}")

    def _done(self, message: Done) -> Iterator[Event]:
        sent_chunk = self._sent.get(message.tag)
        if sent_chunk is None:
            return
        if message.refused:
            node = sent_chunk.worker.node
            yield Message(f"no longer used: worker {node}: {message.problem}")
            workers = self._nodes.remove(node)
            self._nodes.refused[node] = message.problem
            yield from self._lost(workers, "")
            return
        del self._sent[message.tag]
        sent_chunk.worker.in_flight.remove(message.tag)
        if message.result is None:
            yield from self._retry_or_fail(sent_chunk, message.problem)
            return
        rest = dict(enumerate(sent_chunk.trials))
        for index, seconds, row in message.result:
            trial = rest.pop(index)
            sent_chunk.chunks.learned(trial, seconds)
            yield Finished(from_row(trial, row), sent_chunk.worker.number)
        sent_chunk.chunks.put_back(sent_chunk.worker.number, list(rest.values()))

    def _look(self, connection: Connection) -> Iterator[Event]:
        """Process joined and lost nodes."""
        if time.monotonic() < self._looked + SECONDS_BETWEEN_LOOKS:
            return
        self._looked = time.monotonic()
        try:
            there = connection.nodes()
        except ConnectionError:
            return
        self._examine(connection, there)
        for node in self._nodes.known - there:
            used = node in self._nodes.found
            workers = self._nodes.remove(node)
            if used:
                yield Message(f"worker {node} is lost; what it ran runs again elsewhere")
            yield from self._lost(workers, f"worker {node} was lost")

    def _lost(self, workers: list[TrialWorker], reason: str) -> Iterator[Event]:
        """Handle lost workers; without a reason, no trial caused the loss."""
        for worker in workers:
            for position, number in enumerate(worker.in_flight):
                sent_chunk = self._sent.pop(number)
                sent_chunk.cancel()
                if position == 0 and reason:
                    yield from self._retry_or_fail(sent_chunk, reason)
                else:
                    sent_chunk.chunks.put_back(worker.number, sent_chunk.trials)
            worker.in_flight.clear()

    def _retry_or_fail(self, sent_chunk: _SentChunk, reason: str) -> Iterator[Event]:
        """Handle a chunk whose node was lost: retry trials singly, up to `MOST_LOSSES` times."""
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
            yield Finished(record, sent_chunk.worker.number)

    def _wait_for_workers(self, work: dict[bool, Chunks]) -> Iterator[Event]:
        """Wait for nodes, for a limited time."""
        nodes = self._nodes
        needed = {gpu for gpu, chunks in work.items() if chunks.left}
        if self._sent or not needed - {worker.gpu for worker in nodes.workers}:
            self._no_worker_since = None
            return
        what = "offers a GPU (`dask worker --resources GPU=1`)" if nodes.workers else "is left"
        if self._no_worker_since is None:
            self._no_worker_since = time.monotonic()
            yield Message(f"no worker {what}; waiting for one to join")
        if time.monotonic() - self._no_worker_since > self._patience or (
            nodes.refused and not nodes.found and not nodes.asked
        ):
            why = f"; {refusal(nodes.refused)}" if nodes.refused else ""
            msg = f"no worker {what}{why}; all that had finished is stored"
            raise UsageError(msg)

    def close(self) -> None:
        """Disconnect from the cluster; running trials are abandoned."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        for sent_chunk in self._sent.values():
            sent_chunk.cancel()
        self._sent.clear()
        for node in self._nodes.found:
            connection.tell(node, worker_side.release, self._settings.mark)
        connection.close()
