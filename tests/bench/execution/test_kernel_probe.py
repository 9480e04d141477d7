"""OpenBLAS's block size is fixed where known results are right; processes are made to fail."""

from __future__ import annotations

import importlib
import os
import queue
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ope_bench import evaluate
from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.execution import Finished, Message, kernel_probe, machine
from ope_bench.execution.dask import executor as dask_executor
from ope_bench.execution.dask.connection import Done, findings
from ope_bench.execution.dask.executor import DaskExecutor
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import (
    arithmetic_variables,
    choose_arithmetic,
    machine_facts,
    mode_of,
    right_block_size,
    same_arithmetic,
)
from ope_bench.plugins.spec import resolve
from ope_bench.store import Store
from ope_bench.trials.record import Trial
from support.paths import SUPPORT, TINY_PLUGINS

pytestmark = pytest.mark.skipif(
    not arithmetic_variables("portable"), reason="kernels are fixed on x86-64 with AVX2"
)

FAULTS = """\
import importlib
import os

faults = {faults!r}
size = os.environ.get("OPENBLAS_L2_SIZE", "unset")
if os.environ.get("OPENBLAS_CORETYPE") == "Haswell" and size in faults:
    with open({counts!r}, "a") as file:
        file.write(size + "\\n")
    if faults[size] == "dies":
        os.kill(os.getpid(), 11)
    if faults[size] == "multiplies wrongly":
        import numpy as np

        right = np.matmul
        np.matmul = lambda a, b: right(a, b) + (len(a) == 500)
"""


@pytest.fixture
def break_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Mapping[str, str]], Callable[[], list[str]]]]:
    """Make new processes with fixed kernels fail by their size of blocks; return those started."""
    counts = tmp_path / "started"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # of whoever runs the tests
        monkeypatch.delenv(name, raising=False)
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv(
        "PYTHONPATH", f"{tmp_path}{os.pathsep}{before}" if before else str(tmp_path)
    )

    def apply(faults: Mapping[str, str]) -> Callable[[], list[str]]:
        text = FAULTS.format(faults=dict(faults), counts=str(counts))
        (tmp_path / "sitecustomize.py").write_text(text)
        right_block_size.cache_clear()
        return lambda: counts.read_text().split() if counts.exists() else []

    machine.worker_arithmetic.cache_clear()
    yield apply
    right_block_size.cache_clear()
    machine.worker_arithmetic.cache_clear()


def variables_of_a_worker() -> dict[str, Any]:
    """What a trial finds in the environment of its process, and what the run said."""
    trial = Trial(
        resolve("environment", f"{TINY_PLUGINS}:Coins", {}),
        resolve("estimator", f"{SUPPORT / 'kernels.py'}:BlockSize", {}),
        0,
        seed=0,
    )
    with LocalExecutor() as executor:
        events = list(executor.run([trial]))
    (record,) = [event.record for event in events if isinstance(event, Finished)]
    assert record.status.value == "ok", record.reason
    said = [event.text for event in events if isinstance(event, Message)]
    return {"size": record.diagnostics.get("size"), "said": said, "mode": executor.arithmetic}


def test_the_first_size_that_computes_right_is_that_of_workers(break_processes):
    started = break_processes({"unset": "dies", "512": "dies", "2048": "multiplies wrongly"})
    assert right_block_size() == ("256", "")
    assert started() == ["512", "2048"]
    # Without the size workers would die.
    assert variables_of_a_worker() == {"size": 256.0, "said": [], "mode": "portable"}
    assert machine_facts("portable")["blas_block_size"] == "256"


def test_a_right_size_is_remembered_and_a_wrong_one_tried_again(break_processes, tmp_path):
    started = break_processes({"512": "multiplies wrongly"})
    assert right_block_size() == ("2048", "")
    right_block_size.cache_clear()
    assert right_block_size() == ("2048", "")
    assert started() == ["512"]
    (file,) = (tmp_path / "cache" / "ope-bench").iterdir()
    file.write_text("7")  # damaged
    right_block_size.cache_clear()
    assert right_block_size() == ("2048", "")
    assert started() == ["512", "512"]


def test_a_cache_that_cannot_be_written_is_no_error(break_processes, tmp_path):
    break_processes({"512": "dies"})
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert right_block_size() == ("2048", "")


def test_a_machine_without_time_for_the_check_is_not_told_to_be_wrong(
    break_processes, monkeypatch
):
    started = break_processes({"512": "computes right"})
    monkeypatch.setattr(machine, "PATIENCE", 0.01)
    for asked in (None, "portable"):
        with pytest.raises(UsageError, match="TimeoutExpired"):
            choose_arithmetic(asked)
    assert set(started()) <= {"512"}
    assert choose_arithmetic("native") == ("native", "")


def test_the_size_changes_no_bit_and_no_comparison_of_machines(break_processes):
    answers, facts = [], []
    for faults in ({}, {"512": "dies"}, {"512": "dies", "2048": "dies"}):
        break_processes(faults)
        # Another host, so that nothing is remembered.
        for file in Path(os.environ["XDG_CACHE_HOME"], "ope-bench").glob("block-size-*"):
            file.unlink()
        found = evaluate(
            ["dm[regressor=ridge]", "kmm", "riesz"],
            "saito-mips[n_samples=300,n_actions=10]",
            replicates=1,
            n_jobs=1,
        )
        answers.append([row.estimate for row in found])
        facts.append(machine_facts("portable"))
    assert [one["blas_block_size"] for one in facts] == ["512", "2048", "256"]
    assert same_arithmetic(*facts)
    assert answers[0] == answers[1] == answers[2]


NONE_RIGHT = {"512": "dies", "2048": "multiplies wrongly", "256": "dies"}


def test_where_no_size_is_right_a_run_is_native_and_says_so(break_processes, tmp_path, capsys):
    break_processes(NONE_RIGHT)
    told = variables_of_a_worker()
    assert (told["mode"], told["size"]) == ("native", None)
    (line,) = told["said"]
    for part in ("512: Segmentation fault", "2048: numpy: wrong product 500 x 500", "native"):
        assert part in line
    with pytest.raises(UsageError, match=r"--arithmetic portable: .*512.*--arithmetic native"):
        choose_arithmetic("portable")
    assert choose_arithmetic("native") == ("native", "")
    assert mode_of({"arithmetic": {"mode": "portable"}}) == "native"
    store = str(tmp_path / "s.sqlite")
    plan = ["--env", f"{TINY_PLUGINS}:Coins", "--est", f"{TINY_PLUGINS}:Average"]
    command = ["run", *plan, "--replicates", "1", "--jobs", "1", "--store", store]
    assert invoke([*command, "--arithmetic", "portable"]) == 2
    assert "512: Segmentation fault" in capsys.readouterr().err
    assert invoke(command) == 0
    assert capsys.readouterr().err.count("portable arithmetic is wrong") == 1
    with Store.open(Path(store)) as opened:
        (run,) = opened.runs()
    assert run.machine["arithmetic"]["mode"] == "native"
    assert "512: Segmentation fault" in run.machine["arithmetic_note"]
    assert run.machine["blas_block_size"] is None


def test_a_run_that_goes_on_with_another_arithmetic_says_so(break_processes, tmp_path, capsys):
    break_processes({})
    store = str(tmp_path / "s.sqlite")
    plan = ["--env", f"{TINY_PLUGINS}:Coins", "--est", f"{TINY_PLUGINS}:Average"]
    command = ["run", *plan, "--jobs", "1", "--store", store]
    assert invoke([*command, "--replicates", "1"]) == 0
    capsys.readouterr()
    (file,) = Path(os.environ["XDG_CACHE_HOME"], "ope-bench").glob("block-size-*")
    file.unlink()
    break_processes(NONE_RIGHT)
    assert invoke([*command, "--replicates", "2"]) == 0
    assert "mode portable -> native" in capsys.readouterr().err


class Cluster:
    """A connection to nodes, of which some say that portable arithmetic is wrong there."""

    own = False

    def __init__(self, here: dict[str, Any], notes: Mapping[str, str]) -> None:
        self.here, self.notes = here, dict(notes)
        self.messages: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self.asked: list[tuple[str, str]] = []

    def nodes(self) -> set[str]:
        return set(self.notes)

    def listen(self, topic: str) -> None: ...

    def close(self) -> None: ...

    def tell(self, worker, function, *arguments) -> None: ...

    def send(self, node, key, tag, function, asked, arithmetic, **more):
        self.asked.append((node, arithmetic))
        note = "" if arithmetic == "native" else self.notes[node]
        answer = {**self.here, "arithmetic_note": note, "host": node, "threads": 1, "gpus": 0}
        self.messages.put(Done(tag, answer))
        return lambda: None


@pytest.mark.parametrize(
    ("asked", "notes", "expected"),
    [
        (None, {"a": "", "b": ""}, "portable"),
        (None, {"a": "", "b": "512: died"}, "native"),
        ("native", {"a": "512: died"}, "native"),
        ("portable", {"a": "", "b": "512: died"}, None),
    ],
)
def test_a_cluster_takes_what_all_its_nodes_can(monkeypatch, asked, notes, expected):
    cluster = Cluster(findings([]), notes)
    monkeypatch.setattr(dask_executor, "connect", lambda address, jobs: cluster)
    executor = DaskExecutor([], address="tcp://a:1", arithmetic=asked)
    if expected is None:
        with pytest.raises(UsageError, match=r"worker b: 512: died"):
            executor.connect()
        return
    executor.connect()
    assert executor.arithmetic == expected
    assert {node for node, arithmetic in cluster.asked if arithmetic == expected} == {*notes}
    noted = "worker b: 512: died" if notes.get("b") else ""
    assert executor.arithmetic_note == noted
    # A node that comes later must be able to do what the others do.
    cluster.notes["late"] = "512: died"
    executor._examine(cluster, cluster.nodes())
    executor._handle_check(cluster.messages.get())
    assert ("late" in executor._nodes.refused) == (expected == "portable")


def test_right_results_are_right():
    assert list(kernel_probe.wrong_results()) == []


@pytest.mark.parametrize(
    ("module", "name", "spoil", "told"),
    [
        ("numpy", "matmul", lambda found: found[::-1], "numpy: wrong product"),
        ("scipy.linalg.blas", "dgemm", lambda found: found + 1, "scipy: wrong product"),
        ("scipy.linalg.blas", "sgemm", lambda found: found + 1, "float32"),
        ("numpy.linalg", "solve", lambda found: found + 1e-3, "numpy: wrong solution"),
        ("scipy.linalg", "solve", lambda found: found + 1e-3, "scipy: wrong solution"),
        ("scipy.linalg", "eigh", lambda found: (found[0] + 1e-3, found[1]), "wrong eigenvectors"),
    ],
)
def test_every_part_of_the_probe_sees_a_wrong_result(monkeypatch, module, name, spoil, told):
    right = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(f"{module}.{name}", lambda *given: spoil(right(*given)))
    assert told in next(kernel_probe.wrong_results())
