"""Workers that must not be used, and workers that are lost again and again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("distributed")

from ope_bench.base.errors import UsageError
from ope_bench.execution import Finished, Message
from ope_bench.execution.dask import executor as executor_module
from ope_bench.execution.dask.executor import DaskExecutor
from ope_bench.plugins import registry as registry_module
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Status

if TYPE_CHECKING:
    from bench.execution.dask.conftest import Cluster

from support.paths import ACME

Ask = Callable[..., Trial]


def executor(cluster: Cluster, trials: list[Trial], **options: Any) -> DaskExecutor:
    specs = [spec for trial in trials for spec in (trial.environment, trial.estimator)]
    return DaskExecutor(specs, address=cluster.address, **options)


def test_a_trial_that_ends_its_worker_each_time_is_a_crash_and_the_others_run(
    cluster: Cluster, acme: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "MOST_LOSSES", 2)
    worker = cluster.worker("--nanny")
    cluster.wait_for(1)
    guilty = acme("misbehaving", how="kill-cluster-worker")
    innocent = [acme("mean", replicate) for replicate in range(6)]
    with executor(cluster, [guilty, *innocent]) as dask:
        events = list(dask.run([*innocent[:3], guilty, *innocent[3:]]))
    records = {e.record.key: e.record for e in events if isinstance(e, Finished)}
    record = records.pop(guilty.key)
    assert record.status is Status.CRASH
    assert record.error_type == "WorkerDied"
    assert "was lost while it ran; given up after 2 times" in str(record.error_message)
    assert len(record.code_digest) == 16
    assert {one.status for one in records.values()} == {Status.OK}
    assert len(records) == 6
    lost = [e.text for e in events if isinstance(e, Message) and "is lost" in e.text]
    assert len(lost) == 2
    worker.kill()
    worker.wait()


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The plugin with one line more."""
    shutil.copytree(ACME, tmp_path / "changed")
    module = tmp_path / "changed" / "acme_ope" / "estimators.py"
    module.write_text(module.read_text(encoding="utf-8") + "\n# other\n", encoding="utf-8")
    return tmp_path / "changed"


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A package of the same name that holds nothing."""
    package = tmp_path / "stub" / "ope_bench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    return package.parent


def test_workers_that_differ_are_refused_before_anything_runs_and_when_they_come_late(
    cluster: Cluster, acme: Ask, changed: Path, stub: Path
) -> None:
    cluster.worker("--no-nanny")
    cluster.wait_for(1)
    trials = [acme("mean", replicate, seconds=0.3) for replicate in range(200)]
    with executor(cluster, trials) as dask:
        dask.connect()
        cluster.worker("--no-nanny", plugins=changed)
        finished = 0
        for event in dask.run(trials):
            finished += isinstance(event, Finished)
            if isinstance(event, Message):
                late = event.text
                dask.stop()
    assert "not used: worker tcp://" in late
    assert "other code of estimator 'acme-mean' there; install the same source there" in late
    assert 0 < finished < 200
    for plugins in (None, stub):
        cluster.worker("--no-nanny", plugins=plugins)
    cluster.wait_for(4)
    with pytest.raises(UsageError) as refused:
        executor(cluster, trials).connect()
    line = str(refused.value)
    assert "\n" not in line
    assert line.count("worker tcp://") == 3
    assert "other code of estimator 'acme-mean' there" in line
    assert "no estimator 'acme-mean' (acme-ope 1.2) there" in line
    assert "pip install acme-ope==1.2" in line
    assert "it cannot load ope-bench: No module named 'ope_bench." in line
    assert "pip install ope-bench==" in line


LAB = """
from lab_help import value
from ope_bench import Access, Estimate, Estimator

class Lab(Estimator):
    access = Access(0)

    def estimate(self, view):
        return Estimate(value)
"""


def test_workers_with_another_checkout_of_a_helper_of_a_plugin_are_refused(
    clusters: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin itself is the same; what it imports is on the module search path alone."""
    for place, value in (("ours", 1.0), ("theirs", 2.0)):
        info = tmp_path / place / "lab_dask-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-dask\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[ope_bench.estimators]\nlab = lab_dask:Lab\n")
        (info.parent / "lab_dask.py").write_text(LAB)
        (info.parent / "lab_help.py").write_text(f"value = {value}\n")
    monkeypatch.syspath_prepend(tmp_path / "ours")
    registry_module.registry.cache_clear()
    try:
        world, lab = resolve("environment", "saito-toy", {}), resolve("estimator", "lab", {})
        with clusters(tmp_path) as cluster:
            cluster.worker("--no-nanny", plugins=tmp_path / "ours")
            cluster.wait_for(1)
            with executor(cluster, [Trial(world, lab, 0)]) as dask:
                dask.connect()
            cluster.worker("--no-nanny", plugins=tmp_path / "theirs")
            cluster.wait_for(2)
            with pytest.raises(UsageError) as refused:
                executor(cluster, [Trial(world, lab, 0)]).connect()
    finally:
        registry_module.registry.cache_clear()
    assert str(refused.value).count("worker tcp://") == 1
    assert "other code of estimator 'lab' there" in str(refused.value)
