"""A worker process as the coordinator sees it: its start, tasks, messages, limits and end.

Messages are lines of JSON: see `ope_bench.execution.worker_main`. The trial runs in the process
that sends them, so it may have written anything. Whatever is not a message raises `MessageError`,
which costs the trial and its worker, never the run.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from ope_bench.execution import Arithmetic, Limits, keeper, process_tree
from ope_bench.execution.keeper import import_path, python_command
from ope_bench.execution.machine import arithmetic_variables
from ope_bench.execution.watchdog import MARK, kill_marked
from ope_bench.execution.worker_main import Task, separator
from ope_bench.plugins.requirements import is_out_of_memory
from ope_bench.plugins.spec import result_digest, source_files
from ope_bench.trials.foreign import words_for_exit
from ope_bench.trials.isolation import thread_variables
from ope_bench.trials.record import RECORD, Trial, TrialRecord, facts_from, from_row
from ope_bench.trials.sealing import COPY_FIRST
from ope_bench.trials.status import Status
from ope_bench.trials.trial import build

BUFFER_BYTES = 1 << 18
"""Bytes read from a worker in one turn of the coordinator."""

MESSAGE_BYTES = 4 << 20
"""Longest message. A record with all that a trial may attach to it takes less than half."""

TAIL_BYTES = 4_000
PIPE_BYTES = 1 << 20
SMALL_TASK = 1 << 13
"""Bytes of a task that may wait behind others: so many never fill the buffer of a socket, where
the coordinator would wait for a worker that waits for it."""

MOST_BUFFERS = 64

_KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""How much freed memory the C library of Linux keeps. Returned to the kernel after each array, its
pages would be handed out and cleared again, a quarter of a short trial's time."""
KEEPER_SECONDS = process_tree.PATIENCE + 5.0
"""Seconds that a keeper has to end."""


class MessageError(ValueError):
    """Input that is no message of a worker."""


def _message_validator() -> SchemaValidator:
    # By core schemas, for a `TypeAdapter` of thirty columns delays each run by 30 ms.
    integer = core_schema.int_schema(ge=-(1 << 63), lt=1 << 63)  # what SQLite can hold
    kinds: dict[str, CoreSchema] = {
        "string": core_schema.str_schema(),
        "json": core_schema.str_schema(),
        "double": core_schema.float_schema(),
        "int64": integer,
        "bool": integer,
    }
    hints = get_type_hints(TrialRecord)
    columns = {
        column.name: core_schema.nullable_schema(kinds[column.type])
        if type(None) in get_args(hints[column.name])
        else kinds[column.type]
        for column in RECORD
    } | {"status": core_schema.literal_schema([status.value for status in Status])}
    facts = {
        name: core_schema.typed_dict_field(schema, required=name == "code_digest")
        for name, schema in columns.items()
        if name != "status"
    }
    contents: dict[str, list[CoreSchema]] = {
        "done": [core_schema.tuple_schema([*columns.values()]), core_schema.bool_schema()],
        "fit": [core_schema.typed_dict_schema(facts, extra_behavior="forbid")],
        "batch": [core_schema.int_schema(ge=1, le=1 << 20)],
        "ready": [],
        "cramped": [core_schema.str_schema()],
    }
    messages = [
        core_schema.tuple_schema([core_schema.literal_schema([kind]), *content])
        for kind, content in contents.items()
    ]
    return SchemaValidator(core_schema.union_schema([*messages], mode="left_to_right"))


_MESSAGE = _message_validator()


def parse_message(line: bytes) -> tuple[Any, ...]:
    """Parse one line; JSON texts within a row are parsed where the row is converted.

    Raises
    ------
    MessageError : it is not JSON, or not one of the messages.
    """
    try:
        message: tuple[Any, ...] = _MESSAGE.validate_json(line, strict=True)
    except ValidationError as exc:
        *_, last = exc.errors(include_url=False, include_input=False)
        msg = f"no message: {last['msg']}"
        raise MessageError(msg) from exc
    return message


class LineBuffer:
    """Lines from buffers, each byte looked at once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def lines(self, buffer: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a new buffer.

        Raises
        ------
        MessageError : a line is longer than ``MESSAGE_BYTES``.
        """
        *ended, rest = buffer.split(b"\n")
        for part in ended:
            self._append(part)
            line = b"".join(self._parts)
            self._parts, self._size = [], 0
            yield line
        self._append(rest)

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MESSAGE_BYTES:
            msg = f"a message of more than {MESSAGE_BYTES >> 20} MiB"
            raise MessageError(msg)
        if part:
            self._parts.append(part)


@dataclass(eq=False)
class WorkerProcess:
    """A worker, which runs one trial at a time; its process is replaced when it ends.

    Parameters
    ----------
    number : number of the worker.
    mark : mark of the run in the environment of all processes that the worker starts.
    threads, limits : of each trial.
    memory_watch : shared by all workers, None where memory is not limited.
    arithmetic : kernels of its numerical libraries.
    control : the socket by which it starts foreign processes; None where foreign code runs in it.
    """

    number: int
    mark: str
    threads: int
    limits: Limits
    memory_watch: process_tree.MemoryWatch | None
    arithmetic: Arithmetic = "portable"
    control: socket.socket | None = None
    in_flight: deque[Task] = field(default_factory=deque)
    """Tasks sent and not answered; the first is the one that runs."""
    facts: dict[str, Any] | None = None
    """What the worker told of the running trial when its fit began."""
    batch: int = 0
    """How many replicates the worker trains together just now; 0 outside of that."""
    kill_reason: tuple[Status, str] | None = None
    """Why the coordinator killed the worker."""
    deadline: float | None = None
    started_at: float = 0.0
    """When the running trial had its turn."""
    ready: bool = False
    """The worker has started."""
    exiting: bool = False
    """The worker ends of its own, after a trial that left something behind."""
    killed: bool = False
    """The coordinator has killed the worker."""
    pidfd: int | None = None
    _generation: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _channel: socket.socket | None = None
    _output: int = -1
    _lines: LineBuffer = field(default_factory=LineBuffer)
    _ignores_input: bool = False
    """What the worker sends is no longer read."""
    _tails: deque[bytes] = field(default_factory=lambda: deque([b""]))
    """Ends of what each trial in flight has written so far."""

    @property
    def alive(self) -> bool:
        """Return whether there is a worker."""
        return self._process is not None

    def fileno(self) -> int:
        """Return the descriptor of its messages."""
        return self._channel.fileno() if self._channel else -1

    def start(self, folder: str) -> None:
        """Start a worker whose temporary files lie in a folder."""
        ours, theirs = socket.socketpair()
        output, written = os.pipe()
        os.set_blocking(output, False)
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import fcntl  # not everywhere

            fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._generation += 1
        environment = {
            **os.environ,
            **thread_variables(self.threads),
            **arithmetic_variables(self.arithmetic),
            **_KEPT_MEMORY,
            # Fix the hash seed, so that plugins iterate over sets of strings in the same order.
            "PYTHONHASHSEED": "0",
            **import_path(),
            MARK: self._own_mark,
            "TMPDIR": folder,
        }
        control = -1 if self.control is None else self.control.fileno()
        told = [theirs.fileno(), os.getpid(), self.limits.memory or 0, control]
        try:
            # The keeper, which starts `worker_main` and ends all that its trials leave behind.
            self._process = subprocess.Popen(  # noqa: S603
                [*python_command(keeper.__name__), *map(str, told)],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env=environment,
                pass_fds=[one for one in (theirs.fileno(), control) if one >= 0],
                # SIGINT of the terminal must reach the coordinator only.
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(written)
        self._channel, self._output = ours, output
        self._tails = deque([b""])
        self.pidfd = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        self.ready = self.exiting = self.killed = False
        self._begin()

    @property
    def _own_mark(self) -> str:
        return f"{self.mark}.{self.number}.{self._generation}."

    def send(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Send tasks to the worker; return those that must wait until it is idle: large ones."""
        messages: list[bytes] = []
        for task in tasks:
            message = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
            if self.in_flight and len(message) > SMALL_TASK:
                break
            messages.append(message)
            self.in_flight.append(task)
            if len(self.in_flight) == 1:
                self._begin()
        # The worker has just died, which the coordinator will detect.
        with contextlib.suppress(OSError):
            if messages and self._channel is not None:
                self._channel.sendall(b"".join(messages))
        return tasks[len(messages) :]

    def _begin(self) -> None:
        """Start timing the first queued task."""
        self.facts = None
        self.batch = 0
        self.kill_reason = None
        self.started_at = time.monotonic()
        self.deadline = self.started_at + self.limits.preparation

    def begin_batch(self, size: int) -> None:
        """Set the time limit for training a block: that of all its trials."""
        self.batch = size
        timeout = self.limits.timeout
        seconds = None if timeout is None else self.limits.preparation + size * timeout
        self.deadline = None if seconds is None else time.monotonic() + seconds

    def begin_fit(self, facts: dict[str, Any]) -> None:
        """Start the time limit of the running trial's fit."""
        self.facts = facts
        self.batch = 0
        timeout = self.limits.timeout
        self.deadline = None if timeout is None else time.monotonic() + timeout

    def done(self) -> str | None:
        """Remove the finished task; return the end of its output."""
        self.drain()
        self.in_flight.popleft()
        self._begin()
        return self.tail()

    def messages(self) -> Iterator[tuple[Any, ...]]:
        """Yield the worker's new messages, of at most one buffer while it lives.

        Facts and row are those of a `TrialRecord` already.

        A worker that writes without end must not keep the coordinator from the others. Something
        else than messages, or messages out of order, cost the worker.
        """
        for buffer in self._buffers():
            try:
                for line in self._lines.lines(buffer):
                    message = parse_message(line)
                    # Otherwise a message that comes again and again could prolong the time limit.
                    before_fit = bool(self.in_flight) and self.facts is None
                    may_come = {
                        "ready": not self.ready,
                        "cramped": True,
                        "batch": before_fit and not self.batch,
                        "fit": before_fit,
                        "done": bool(self.in_flight),
                    }
                    if not may_come[message[0]]:
                        msg = f"'{message[0]}' out of order"
                        raise MessageError(msg)
                    match message:
                        case ("fit", facts):
                            yield "fit", facts_from(facts)
                        case ("done", row, retire):
                            yield "done", from_row(self.in_flight[0].trial, row), retire
                        case _:
                            yield message
            # Texts within a row may be no JSON, JSON of another kind, or nested without end.
            except (ValueError, TypeError, AttributeError, RecursionError) as exc:
                self._ignores_input = True
                self.kill(Status.CRASH, f"something wrote to the worker's channel: {exc}")
                return

    def _buffers(self) -> Iterator[bytes]:
        # What a dead worker has sent fits the buffer of a socket, a few of these.
        most = 1 if self.returncode is None else MOST_BUFFERS
        with contextlib.suppress(OSError):
            while most and self._channel is not None and not self._ignores_input:
                most -= 1
                buffer = self._channel.recv(BUFFER_BYTES, socket.MSG_DONTWAIT)
                if not buffer:
                    return
                yield buffer

    def drain(self) -> None:
        """Read the worker's output, so that its pipe does not fill up; keep the end."""
        with contextlib.suppress(OSError):
            # At most one pipe buffer: a worker that writes endlessly must not block the
            # coordinator.
            written = os.read(self._output, PIPE_BYTES)
            parts = (self._tails.pop() + written).split(separator(self._own_mark))
            self._tails += map(_end, parts)

    def tail(self) -> str | None:
        """Return the end of the output of the trial that has just ended."""
        tail = self._tails.popleft()
        if not self._tails:
            self._tails.append(b"")
        return tail.decode(errors="replace") or None

    def check(self) -> None:
        """Kill a worker that exceeds its time or memory limit."""
        if not self.in_flight or self._process is None or self.killed:
            return
        if self.deadline is not None and time.monotonic() >= self.deadline:
            if self.batch:
                each = f"{self.batch} x {self.limits.timeout:g} s"
                told = f"training {self.batch} replicates together took longer than {each}"
            elif self.facts is not None:
                told = f"fit and estimate took longer than {self.limits.timeout:g} s"
            else:
                limit = f"{self.limits.preparation:g} s"
                told = f"imports and sampling took longer than {limit}, before fit"
            self.kill(Status.TIMEOUT, told)
        elif self.memory_watch is not None and self.limits.memory is not None:
            used = self.memory_watch.excess(self._process.pid, self.limits.memory)
            if used is not None:
                limit = f"{self.limits.memory / 2**20:,.0f} MiB"
                told = f"{used / 2**20:,.0f} MiB resident, children included; the limit is {limit}"
                self.kill(Status.MEMORY, told)

    def kill(self, status: Status | None = None, message: str = "") -> None:
        """Kill the worker; status and message are for the record of the running trial."""
        if status is not None:
            self.kill_reason = status, message
        if self._process is not None and self._process.poll() is None:
            self.killed = True
            with contextlib.suppress(OSError):
                if sys.platform == "linux":
                    # The keeper kills the worker and all that its trials started.
                    os.kill(self._process.pid, signal.SIGTERM)
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def returncode(self) -> int | None:
        """Return the exit code of an ended worker."""
        return self._process.poll() if self._process else None

    def reap(self) -> int | None:
        """Reap an ended worker and kill all its descendants; return its exit code."""
        assert self._process is not None  # noqa: S101
        try:
            returncode = self._process.wait(KEEPER_SECONDS)
        except subprocess.TimeoutExpired:
            # Stopped by what it keeps, or its system hangs.
            self._process.kill()
            returncode = self._process.wait()
        kill_marked(self._own_mark)
        self.drain()
        if self._channel:
            self._channel.close()
        os.close(self._output)
        if self.pidfd is not None:
            os.close(self.pidfd)
        self._process = self._channel = self.pidfd = None
        self._output, self._lines, self._ignores_input = -1, LineBuffer(), False
        return returncode


def _end(output: bytes) -> bytes:
    """Return the end of an output; where Python dumped its stack, the end before and its top."""
    at = output.rfind(b"Fatal Python error: ")
    if at < 0:
        return output[-TAIL_BYTES:]
    half = TAIL_BYTES // 2
    return output[:at][-half:] + output[at:][:half]


def failure_record(
    trial: Trial,
    facts: Mapping[str, Any] | None,
    *,
    batch: int = 0,
    returncode: int | None,
    kill_reason: tuple[Status, str] | None,
    output: str | None,
    exclusive: bool,
) -> TrialRecord:
    """Build the record of a trial whose worker died.

    Parameters
    ----------
    facts : fields of the record that the worker sent before fit, None if it died earlier.
    batch : number of replicates in training, if the worker died in batched training.
    returncode : exit code of the worker, negative for a signal.
    kill_reason : status and message if the coordinator killed it.
    output : the end of its output.
    """
    where = "in fit or estimate" if facts is not None else "before fit"
    if batch:
        where = f"while {batch} replicates were trained together"
    if facts is not None:
        known = dict(facts)
    else:
        known = {
            "code_digest": "",
            "exclusive": exclusive,
            "origin": trial.estimator.origin,
            "environment_origin": trial.environment.origin,
        }
        with contextlib.suppress(Exception):
            environment, estimator = build(trial.environment), build(trial.estimator)
            known["code_digest"] = result_digest(environment, estimator)
            known["access"] = tuple(estimator.access.words())
    if kill_reason is not None:
        status, message = kill_reason
    elif returncode != -signal.SIGKILL and is_out_of_memory(output or ""):
        status = Status.MEMORY
        message = f"the worker ran out of memory and {words_for_exit(returncode)} {where}"
    else:
        status, message = Status.CRASH, f"the worker {words_for_exit(returncode)} {where}"
        if -(returncode or 0) in _FAULTS:
            message += _cause(trial, output or "")
    known |= {
        "error_type": {Status.TIMEOUT: "TimeoutError", Status.MEMORY: "MemoryError"}.get(
            status, "WorkerDied"
        ),
        "error_message": message,
        "output_tail": output,
    }
    return TrialRecord(trial, status=status, **known)


_FAULTS = (signal.SIGSEGV, signal.SIGILL, signal.SIGBUS)
"""Signals of the processor: memory that must not be written, an instruction that it lacks."""


def _cause(trial: Trial, output: str) -> str:
    """Return where the processor refused, from the dump of the stack, and possible causes."""
    found = re.search(r'\(most recent call first\):\n  File "(.*)", line (\d+)', output)
    if found is None:
        return ""
    file, line = found.groups()
    kernel = "a library's kernel that this processor does not run (--arithmetic native)"
    files: set[str] = set()
    with contextlib.suppress(Exception):
        files = source_files(type(build(trial.estimator)))
    if file not in files:
        return f", at {file}:{line}: perhaps {kernel}"
    return f", at {file}:{line}: a write into data of all trials ({COPY_FIRST}), or {kernel}"
