"""How runs on clusters end: Ctrl-C, a killed coordinator, workers in networks of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("distributed")

from ope_bench.execution.dask.executor import DaskExecutor
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.store import Store
from ope_bench.trials.record import Trial

if TYPE_CHECKING:
    from bench.execution.dask.conftest import Cluster, Node

from support.paths import ACME

MARK = "OPE_BENCH_TEST"

Ask = Callable[..., Trial]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@contextlib.contextmanager
def command_line(
    folder: Path, *arguments: str, before: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """``ope-bench run`` in a process group of its own, as a terminal would start it."""
    code = f"{before or 'pass'}; from ope_bench.cli import main; main()"
    options = ["--executor", "dask", "--env", "acme-coin", "--store", "s.sqlite"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", *options, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ACME), MARK: uuid.uuid4().hex},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(true: Callable[[], Any], seconds: float = 150.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def stored(folder: Path) -> int:
    """Outcomes so far."""
    with contextlib.suppress(Exception), Store.open(folder / "s.sqlite") as store:
        return int(store.info().records)
    return 0


def _state(pid: str) -> list[str]:
    """State, parent, group and more of a process."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def slots_below(pid: int) -> list[int]:
    """Processes that run trials for a worker."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{name}/environ").read_bytes()
            if b"OPE_BENCH_WORKER=" in words and int(_state(name)[1]) == pid:
                found.append(int(name))
    return found


def test_ctrl_c_in_a_terminal_keeps_what_is_stored_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    arguments = ("--est", "acme-mean[seconds=0.5]", "--jobs", "1", "--replicates", "400")
    with command_line(tmp_path, *arguments) as process:
        wait_until(lambda: stored(tmp_path) >= 1)
        begun = time.monotonic()
        # The whole group hears it: the coordinator, and the worker that it started.
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130, said
    assert time.monotonic() - begun < 30
    assert "Traceback" not in said
    assert "interrupted" in said
    with Store.open(tmp_path / "s.sqlite") as store:
        assert [run.exit_code for run in store.runs()] == [130]
        assert {record.status for record in store.records()} == {"ok"}
        assert 1 <= store.info().records < 200
    wait_until(lambda: not group(process.pid))


def group(leader: int) -> list[str]:
    """The processes of a group that still run."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, _, number = _state(name)[:3]
            if int(number) == leader and state != "Z":
                found.append(name)
    return found


@pytest.fixture(scope="module")
def worker(cluster: Cluster) -> Node:
    """The only worker of the cluster, whose scheduler the last of its tests kills."""
    one = cluster.worker("--no-nanny")
    cluster.wait_for(1)
    return one


def test_workers_give_up_the_trials_of_a_killed_coordinator(
    cluster: Cluster, worker: Node, tmp_path: Path
) -> None:
    arguments = ("--est", "acme-misbehaving[how=hang]", "--replicates", "2")
    with command_line(tmp_path, *arguments, "--address", cluster.address) as process:
        wait_until(lambda: slots_below(worker.pid))
        time.sleep(0.3)
        assert slots_below(worker.pid)
        process.kill()
        wait_until(lambda: not slots_below(worker.pid))
    assert worker.poll() is None


@pytest.mark.usefixtures("worker")
def test_a_scheduler_that_dies_is_told_and_what_had_finished_is_kept(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long a client tries to connect again; half a minute if nothing is said.
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    before = "from ope_bench.execution.dask import connection; connection.CONNECT_SECONDS = 5"
    arguments = ("--est", "acme-mean[seconds=0.2]", "--replicates", "400", "--address")
    with command_line(tmp_path, *arguments, cluster.address, before=before) as process:
        wait_until(lambda: stored(tmp_path) >= 3)
        cluster.processes[0].kill()
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 2, said
    assert "the Dask scheduler has gone; all that had finished is stored" in said
    assert "Traceback" not in said
    with Store.open(tmp_path / "s.sqlite") as store:
        assert {record.status for record in store.records()} == {"ok"}
        assert 3 <= store.info().records < 400


@pytest.fixture
def networks() -> Iterator[list[tuple[str, str]]]:
    """Two network namespaces: their names, and the address of this one as seen from there."""
    ip = shutil.which("ip")
    if ip is None or os.geteuid() != 0:
        pytest.skip("network namespaces need `ip` and root")
    made = []
    try:
        for number in (1, 2):
            name, here, there = (f"ope{os.getpid()}{end}{number}" for end in ("", "a", "b"))
            net = f"10.213.{number}"
            made.append(name)
            for line in (
                f"netns add {name}",
                f"link add {here} type veth peer name {there}",
                f"link set {there} netns {name}",
                f"addr add {net}.1/30 dev {here}",
                f"link set {here} up",
                f"-n {name} link set lo up",
                f"-n {name} addr add {net}.2/30 dev {there}",
                f"-n {name} link set {there} up",
            ):
                done = subprocess.run([ip, *line.split()], capture_output=True, text=True)
                if done.returncode != 0:
                    pytest.skip(f"ip {line}: {done.stderr.strip()}")
        yield [(name, f"10.213.{number}.1") for number, name in enumerate(made, 1)]
    finally:
        for name in made:
            # Its half of the pair of interfaces goes with it, and so does ours.
            subprocess.run([ip, "netns", "del", name], capture_output=True, check=False)


def test_workers_in_networks_of_their_own_give_the_same_numbers_though_one_is_killed(
    networks: list[tuple[str, str]], tmp_path: Path, acme: Ask, answers: Any, clusters: Any
) -> None:
    trials = [acme(name, replicate) for replicate in range(15) for name in ("mean", "noisy")]
    trials += [acme("mean", replicate, seconds=0.05) for replicate in range(20)]
    expected = answers(list(InProcessExecutor().run(trials)))
    with clusters(tmp_path, "0.0.0.0") as cluster:
        port = cluster.address.rpartition(":")[2]
        workers = [
            cluster.worker(
                "--no-nanny",
                inside=["ip", "netns", "exec", name],
                address=f"tcp://{gateway}:{port}",
            )
            for name, gateway in networks
        ]
        cluster.wait_for(2)
        specs = [spec for trial in trials for spec in (trial.environment, trial.estimator)]
        with DaskExecutor(specs, address=cluster.address) as dask:
            dask.connect()
            hosts = {worker.split("/")[2].partition(":")[0] for worker in dask._nodes.found}
            events = []
            for event in dask.run(trials):
                events.append(event)
                if len(events) == 10:
                    workers[0].kill()
    assert hosts == {"10.213.1.2", "10.213.2.2"}
    assert answers(events) == expected
