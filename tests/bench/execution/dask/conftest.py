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
from pathlib import Path
from typing import Any

import pytest

from ope_bench.execution import Event, Finished
from ope_bench.trials.record import TrialRecord
from support.paths import ACME

PATIENCE = 150.0

Record = dict[str, Any]


@dataclass
class Cluster:
    """A scheduler and what was started for it."""

    address: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def worker(
        self,
        *options: str,
        plugins: Path | None = ACME,
        inside: Sequence[str] = (),
        address: str | None = None,
    ) -> subprocess.Popen[bytes]:
        """A worker with one thread, in an environment where ``plugins`` are installed."""
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address or self.address]
        command += ["--no-dashboard", "--nthreads", "1", "--memory-limit", "0"]
        return self._start([*inside, *command, *options], plugins)

    def wait_for(self, workers: int) -> None:
        """Until so many are there."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)

    def _start(self, command: Sequence[str], plugins: Path | None) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(plugins) if plugins else ""}
        log = self.folder / f"{len(self.processes)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=file, stderr=file
            )
        self.processes.append(process)
        return process


@contextlib.contextmanager
def cluster_in(folder: Path, host: str = "127.0.0.1") -> Iterator[Cluster]:
    """A scheduler; everything ends with the block."""
    file = folder / "scheduler.json"
    cluster = Cluster("", folder)
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    command += ["--host", host, "--port", "0", "--scheduler-file", str(file)]
    try:
        cluster._start(command, None)
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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler without workers."""
    with cluster_in(tmp_path_factory.mktemp("cluster")) as one:
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
def clusters() -> Callable[..., contextlib.AbstractContextManager[Cluster]]:
    """Schedulers that listen elsewhere."""
    return cluster_in
