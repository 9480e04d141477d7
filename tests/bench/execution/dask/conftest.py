"""Real schedulers and workers, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest

from ope_bench.execution import Event, Finished
from ope_bench.trials.record import TrialRecord
from support.paths import ACME, SUPPORT

PATIENCE = 150.0

Record = dict[str, Any]


class Node(Protocol):
    """A process of a cluster."""

    pid: int

    def poll(self) -> int | None:
        """Return None as long as it runs."""

    def kill(self) -> None: ...

    def wait(self) -> object: ...


class Forked:
    """A child of the server of nodes, who leaves no trace when it has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._process = psutil.Process(pid)

    def poll(self) -> int | None:
        return None if self._process.is_running() else 0

    def kill(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process.kill()

    def wait(self) -> None:
        self._process.wait(PATIENCE)


class NodeServer:
    """A process that has imported Dask, and of which nodes are forks."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.process = subprocess.Popen(
            [sys.executable, str(SUPPORT / "dask_nodes.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self, program: str, arguments: Sequence[str], **task: Any) -> Forked:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"program": program, "arguments": list(arguments), **task}
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        return Forked(int(self.process.stdout.readline()))


@dataclass
class Cluster:
    """A scheduler and what was started for it."""

    address: str
    folder: Path
    server: NodeServer
    processes: list[Node] = field(default_factory=list)

    def worker(
        self,
        *options: str,
        plugins: Path | None = ACME,
        inside: Sequence[str] = (),
        address: str | None = None,
    ) -> Node:
        """A worker with one thread, in an environment where ``plugins`` are installed."""
        arguments = [address or self.address, "--no-dashboard", "--nthreads", "1"]
        return self.start("worker", [*arguments, "--memory-limit", "0", *options], plugins, inside)

    def wait_for(self, workers: int) -> None:
        """Until so many are there."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        plugins: Path | None = None,
        inside: Sequence[str] = (),
    ) -> Node:
        environment = {**os.environ, "PYTHONPATH": str(plugins) if plugins else ""}
        log = self.folder / f"{len(self.processes)}.log"
        # A nanny starts its worker by the program of its own process.
        if inside or "--nanny" in arguments:
            command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *arguments]
            with log.open("wb") as file:
                process: Node = subprocess.Popen(
                    [*inside, *command], cwd=self.folder, env=environment, stdout=file, stderr=file
                )
        else:
            process = self.server.start(
                program,
                arguments,
                log=str(log),
                folder=str(self.folder),
                environment=environment,
                path=[str(plugins)] if plugins else [],
            )
        self.processes.append(process)
        return process


@pytest.fixture(scope="session")
def node_server() -> Iterator[NodeServer]:
    """One for all clusters."""
    server = NodeServer()
    with server.process:
        yield server


@contextlib.contextmanager
def cluster_in(server: NodeServer, folder: Path, host: str = "127.0.0.1") -> Iterator[Cluster]:
    """A scheduler; everything ends with the block."""
    file = folder / "scheduler.json"
    cluster = Cluster("", folder, server)
    arguments = ["--no-dashboard", "--host", host, "--port", "0", "--scheduler-file", str(file)]
    try:
        cluster.start("scheduler", arguments)
        cluster.address = _address_in(file)
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.kill()
            process.wait()


def _address_in(file: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(file.read_text(encoding="utf-8"))["address"])
        time.sleep(0.05)
    msg = "the scheduler does not start"
    raise AssertionError(msg)


@pytest.fixture(scope="module")
def cluster(
    node_server: NodeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A scheduler without workers."""
    with cluster_in(node_server, tmp_path_factory.mktemp("cluster")) as one:
        yield one


def answer(record: TrialRecord) -> Record:
    """What must not depend on where a trial ran."""
    facts = dict(vars(replace(record)))
    for cost in ("fit_seconds", "fit_cpu_seconds", "estimate_seconds", "shared_seconds"):
        del facts[cost]
    for name in ("trial", "peak_rss_bytes", "gpu_peak_bytes", "traceback", "output_tail"):
        del facts[name]
    return facts


@pytest.fixture(scope="session")
def answers() -> Callable[[Sequence[Event]], dict[str, Record]]:
    """The answers among some events, by key; no trial may have two."""

    def found(events: Sequence[Event]) -> dict[str, Record]:
        finished = [event.record for event in events if isinstance(event, Finished)]
        by_key = {record.key: answer(record) for record in finished}
        assert len(by_key) == len(finished), "a trial finished twice"
        return by_key

    return found


@pytest.fixture(scope="session")
def clusters(
    node_server: NodeServer,
) -> Callable[..., contextlib.AbstractContextManager[Cluster]]:
    """Schedulers that listen elsewhere."""
    return partial(cluster_in, node_server)
