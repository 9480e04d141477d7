"""The same trials on workers of a cluster: same numbers, same isolation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("distributed")

from ope_bench.base.errors import UsageError
from ope_bench.execution import Event, Finished, Message, Started
from ope_bench.execution.dask.executor import DaskExecutor
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Device, Status

if TYPE_CHECKING:
    from bench.execution.dask.conftest import Cluster

Ask = Callable[..., Trial]


def plugins(trials: list[Trial]) -> list[PluginSpec]:
    return [spec for trial in trials for spec in (trial.environment, trial.estimator)]


def executor(cluster: Cluster, trials: list[Trial], **options: Any) -> DaskExecutor:
    return DaskExecutor(plugins(trials), address=cluster.address, **options)


@pytest.fixture(scope="module")
def workers(cluster: Cluster) -> Cluster:
    """Two workers: one under a nanny, hence daemonic; one with a GPU, as it says."""
    cluster.worker("--nanny", "--name", "nannied")
    cluster.worker("--no-nanny", "--name", "bare", "--resources", "GPU=1")
    cluster.wait_for(2)
    return cluster


HOW = ("raise", "positivity", "nan", "segfault", "sys-exit", "swallow", "hang")
TIMEOUT = 3.0


@dataclass
class Both:
    """Events of the same trials here and on the cluster, and the cluster's executor at its end.

    ``stopped`` are those of a run in which each started trial asks for a stop.
    """

    here: list[Event]
    there: list[Event]
    stopped: list[Event]
    dask: DaskExecutor


@pytest.fixture(scope="module")
def both(workers: Cluster, acme: Ask) -> Both:
    trials = [acme(name, replicate) for replicate in range(10) for name in ("mean", "noisy")]
    trials += [acme("misbehaving", how=how) for how in HOW]
    trials += [replace(acme("mean", replicate), device=Device.CUDA) for replicate in range(3)]
    trials += [acme("settings"), acme("threads")]
    alone = [acme("mean", replicate, seconds=0.05) for replicate in range(6)]
    with LocalExecutor(2, timeout=TIMEOUT) as local:
        here = [*local.run(trials), *local.run(alone, exclusive=True)]
    slow = [acme("mean", replicate, seconds=0.6) for replicate in range(10)]
    stopped = []
    # Each executor examines every node in a new process, and starts workers of its own.
    with executor(workers, trials + alone + slow, timeout=TIMEOUT) as dask:
        there = [*dask.run(trials), *dask.run(alone, exclusive=True)]
        for event in dask.run(slow):
            stopped.append(event)
            if isinstance(event, Started):
                dask.stop()
    return Both(here, there, stopped, dask)


def test_numbers_statuses_and_digests_are_those_of_a_local_run(both: Both, answers: Any) -> None:
    expected, found = answers(both.here), answers(both.there)
    # Where a worker was started may differ.
    for answer in (*expected.values(), *found.values()):
        answer["diagnostics"] = {**answer["diagnostics"], "folder": None}
    assert {answer["status"] for answer in found.values()} == {*Status} - {"memory"}
    assert found == expected


def test_memory_limits_hold_and_the_next_trial_runs_until_a_hard_stop_frees_the_slots(
    workers: Cluster, acme: Ask
) -> None:
    trials = [acme("misbehaving", how="allocate"), acme("mean")]
    hanging = [acme("misbehaving", replicate, how="hang") for replicate in range(2)]
    with executor(workers, trials + hanging, memory=400 << 20, jobs=1) as dask:
        finished = [event.record for event in dask.run(trials) if isinstance(event, Finished)]
        assert [record.status for record in finished] == ["memory", "ok"]
        for event in dask.run(hanging):
            if isinstance(event, Started):
                dask.stop(now=True)
            assert not isinstance(event, Finished)
    # The tests to come would never end if it were otherwise.


def test_the_machines_of_the_workers_are_known(both: Both) -> None:
    dask = both.dask
    assert dask.jobs == 2
    assert sum(machine["workers"] for machine in dask.machines) == 2


def test_trials_that_run_alone_have_one_slot_and_keep_their_order(both: Both) -> None:
    order = [
        [event for event in events if isinstance(event, Finished) and event.record.exclusive]
        for events in (both.here, both.there)
    ]
    assert [e.record.key for e in order[0]] == [e.record.key for e in order[1]]
    assert len({event.worker for event in order[1]}) == 1


def test_trials_for_a_device_go_where_one_is_offered(both: Both) -> None:
    finished = [event for event in both.there if isinstance(event, Finished)]
    (slot,) = [one.number for one in both.dask._nodes.workers if one.gpu]
    assert {e.worker for e in finished if e.record.trial.device == "cuda"} == {slot}
    assert slot not in {e.worker for e in finished if e.record.trial.device == "cpu"}


def test_gentle_stops_wait_for_what_runs(both: Both) -> None:
    assert 1 <= sum(isinstance(event, Finished) for event in both.stopped) <= 3


def test_a_worker_killed_in_the_middle_loses_nothing_and_changes_no_number(
    workers: Cluster, acme: Ask, answers: Any
) -> None:
    trials = [acme("mean", replicate, seconds=0.05) for replicate in range(30)]
    trials += [acme("noisy", replicate) for replicate in range(30)]
    expected = answers(list(InProcessExecutor().run(trials)))
    victim = workers.worker("--no-nanny", "--name", "victim")
    workers.wait_for(3)
    events = []
    with executor(workers, trials) as dask:
        for event in dask.run(trials):
            events.append(event)
            if isinstance(event, Finished) and len(events) > 5:
                victim.kill()
    assert answers(events) == expected
    (told,) = [event.text for event in events if isinstance(event, Message)]
    assert "is lost; what it ran runs again elsewhere" in told


def test_a_scheduler_that_is_missing_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from ope_bench.execution.dask import connection

    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1)
    with pytest.raises(UsageError, match="no Dask scheduler answers at tcp") as told:
        DaskExecutor([], address="tcp://127.0.0.1:9").connect()
    assert "\n" not in str(told.value)


def test_without_distributed_the_exact_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r'pip install "ope-bench\[dask\]"'):
        DaskExecutor([]).connect()


def test_a_cluster_that_does_not_start_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(**options: Any) -> None:
        msg = "Nanny failed to start."
        raise RuntimeError(msg)

    monkeypatch.setattr("distributed.LocalCluster", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UsageError, match=r"did not start .*Nanny failed to start") as told:
        DaskExecutor([]).connect()
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_local_cluster_go_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ope_bench.execution.dask import connection

    folders: list[Path] = []

    class Fake:
        def __init__(self, *_: Any, **options: Any) -> None:
            if "local_directory" in options:
                folders.append(Path(options["local_directory"]))
                (folders[0] / "dask-scratch-space").mkdir()

        def close(self, **_: Any) -> None: ...

    monkeypatch.setattr("distributed.LocalCluster", Fake)
    monkeypatch.setattr("distributed.Client", Fake)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = connection.connect(None, 1)
    assert folders[0].parent == tmp_path
    made.close()
    assert list(tmp_path.iterdir()) == []
