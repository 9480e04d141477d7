"""Blocks: trained whole, kept apart from single fits, and failing no further than they must."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ope_bench.boards.leaderboard import boards
from ope_bench.execution import Finished, Limits
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.execution.local import LocalExecutor, TrialQueue
from ope_bench.execution.runner import RunCounts, run
from ope_bench.plugins.spec import resolve
from ope_bench.store import Store
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import adhoc
from ope_bench.trials.batching import block_of
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status
from ope_bench.trials.trial import Workspace, build, devices_of, run_trial
from support.paths import BLOCK_PLUGINS as PLUGINS

WORLD = resolve("environment", f"{PLUGINS}:Numbers", {})
SIZE = Device.CPU_BATCH.block_size


def trial(replicate: int = 0, *, device: Device = Device.CPU_BATCH, **params: Any) -> Trial:
    return trials([replicate], device=device, **params)[0]


def trials(replicates: Any, *, device: Device = Device.CPU_BATCH, **params: Any) -> list[Trial]:
    spec = resolve("estimator", f"{PLUGINS}:Together", params)
    return [Trial(WORLD, spec, replicate, device=device) for replicate in replicates]


def outcomes(executor: Any, asked: list[Trial]) -> dict[int, TrialRecord]:
    try:
        events = list(executor.run(asked))
    finally:
        executor.close()
    found = [event.record for event in events if isinstance(event, Finished)]
    assert len(found) == len(asked)
    return {record.trial.replicate: record for record in found}


def test_a_key_has_the_same_bits_however_many_replicates_are_asked_for() -> None:
    everything = outcomes(InProcessExecutor(), trials(range(SIZE + 2)))
    few = outcomes(InProcessExecutor(), trials(range(3)))
    for number in (2, SIZE - 1, SIZE + 1):
        alone = run_trial(trial(number), Workspace())
        assert alone.status is Status.OK
        assert alone.estimate == everything[number].estimate
    assert {n: few[n].estimate for n in few} == {n: everything[n].estimate for n in few}


def test_a_block_is_trained_once_and_whole(tmp_path: Path) -> None:
    note = tmp_path / "note"
    outcomes(InProcessExecutor(), trials(range(SIZE + 1), note=str(note)))
    lines = note.read_text(encoding="utf-8").splitlines()
    assert [line.split()[:2] for line in lines] == [[str(SIZE), "cpu"]] * 2


def test_a_block_is_the_same_for_any_of_its_replicates() -> None:
    blocks = {tuple(one.key for one in block_of(trial(number))) for number in range(SIZE)}
    assert len(blocks) == 1
    assert trial(0).group == trial(SIZE - 1).group != trial(SIZE).group
    assert trial(0).group != trial(0, device=Device.CUDA_BATCH).group


def test_numbers_do_not_depend_on_how_many_workers_there_are() -> None:
    asked = trials(range(2 * SIZE))
    here, two = (outcomes(executor, asked) for executor in (InProcessExecutor(), LocalExecutor(2)))
    assert {r.status for r in here.values()} == {Status.OK}
    for number in here:
        assert here[number].estimate == two[number].estimate


def test_a_block_stays_with_one_slot() -> None:
    queue = TrialQueue(trials(range(2 * SIZE)))
    first, second = queue.take(0), queue.take(1)
    assert first is not None
    assert second is not None
    assert first.group != second.group
    assert queue.take(2) is None
    rest = [queue.take(0) for _ in range(SIZE - 1)]
    assert {one.group for one in rest if one} == {first.group}
    assert queue.take(0) is None


def test_single_fits_and_blocks_never_stand_in_for_each_other() -> None:
    workspace = Workspace()
    single, batch, again = (
        run_trial(trial(1, device=device), workspace)
        for device in (Device.CPU, Device.CPU_BATCH, Device.CPU)
    )
    assert single.estimate == again.estimate
    assert single.estimate is not None
    assert batch.estimate is not None
    # The single fit adds 100, and both know the same data and the same stream.
    assert abs(single.estimate - batch.estimate - 100.0) < 1e-6
    assert single.key != batch.key


def test_boards_show_a_batched_device_in_a_row_of_its_own() -> None:
    workspace = Workspace()
    asked = [*trials(range(4), device=Device.CPU), *trials(range(4))]
    (board,) = boards([run_trial(one, workspace) for one in asked])
    assert sorted((row.device, row.replicates) for row in board.rows) == [
        ("cpu", 4),
        ("cpu-batch", 4),
    ]


def test_the_cost_of_a_block_is_shared_evenly() -> None:
    records = outcomes(InProcessExecutor(), trials(range(4)))
    shares = {record.shared_seconds for record in records.values()}
    assert len(shares) == 1
    assert shares.pop() > 0


@pytest.mark.parametrize(("how", "message"), [("raise", "as requested"), ("refuse", "refused")])
def test_data_that_cannot_be_batched_cost_their_own_trial(how: str, message: str) -> None:
    records = outcomes(InProcessExecutor(), trials(range(5), how=how, which=2))
    assert {n: r.status for n, r in records.items()} == {
        n: Status.ERROR if n == 2 else Status.OK for n in range(5)
    }
    assert (records[2].error_type, records[2].error_message) == ("ValueError", message)
    assert "block_plugins" in str(records[2].traceback)


def test_a_failure_of_the_training_is_told_by_every_trial() -> None:
    records = outcomes(InProcessExecutor(), trials(range(4), how="raise-together"))
    assert {r.status for r in records.values()} == {Status.ERROR}
    assert {r.error_message for r in records.values()} == {"all at once"}
    assert len({r.traceback for r in records.values()}) == 1


def test_a_crash_in_a_trials_own_part_costs_that_trial() -> None:
    records = outcomes(LocalExecutor(1), trials(range(5), how="die-alone", which=1))
    assert {n: r.status for n, r in records.items()} == {
        n: Status.CRASH if n == 1 else Status.OK for n in range(5)
    }
    assert "in fit or estimate" in str(records[1].error_message)


def test_a_crash_of_the_training_costs_the_block_and_is_told_by_every_trial(
    tmp_path: Path,
) -> None:
    note = tmp_path / "note"
    asked = trials(range(4), how="die-together", note=str(note))
    records = outcomes(LocalExecutor(1), asked)
    assert {r.status for r in records.values()} == {Status.CRASH}
    assert all(
        f"while {SIZE} replicates were trained together" in str(r.error_message)
        for r in records.values()
    )
    assert len(note.read_text(encoding="utf-8").splitlines()) == 1, "it was tried again"


def test_a_block_has_the_time_of_its_trials_and_every_trial_tells_of_its_end() -> None:
    executor = LocalExecutor(1, timeout=0.02)
    # The worker starts in its own time; only then is there little.
    assert len(list(executor.run([trial()]))) == 2
    executor._workers[0].limits = Limits(timeout=0.02, preparation=2.0)
    records = outcomes(executor, trials(range(3), how="hang-together"))
    assert {r.status for r in records.values()} == {Status.TIMEOUT}
    for record in records.values():
        assert f"longer than {SIZE} x 0.02 s" in str(record.error_message)


def test_only_what_is_missing_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"

    def go(replicates: int) -> RunCounts:
        outcome = RunCounts()
        with Store.open(path, write=True) as store:
            run_id = store.begin_run(
                suite="s", truth="empirical", command="", planned=0, machine={}
            )
            events = run(
                trials(range(replicates)),
                store=store,
                run_id=run_id,
                executor=InProcessExecutor(),
                outcome=outcome,
            )
            Counter(type(event).__name__ for event in events)
        return outcome

    assert go(3).executed == 3
    more = go(5)
    assert (more.reused, more.executed) == (3, 2)


def test_estimators_with_nothing_to_batch_are_not_crossed_with_a_batched_device() -> None:
    suite = adhoc([f"{PLUGINS}:Numbers"], [f"{PLUGINS}:Together", f"{PLUGINS}:Alone"])
    manifest = plan(replace(suite, devices=(Device.CPU, Device.CPU_BATCH), replicates=2))
    cells = [(cell.estimator.reference, cell.device) for cell in manifest.cells]
    found = Counter((reference.rpartition(":")[2], device) for reference, device in cells)
    assert found == {("Together", "cpu"): 1, ("Together", "cpu-batch"): 1, ("Alone", "cpu"): 1}
    alone = plan(replace(suite, devices=(Device.CPU_BATCH,)))
    assert [spec.reference.rpartition(":")[2] for spec, _ in alone.without_device] == ["Alone"]
    # All of a block stand together, and after the single trials on the same environment.
    assert [one.device for one in manifest.trials] == ["cpu"] * 4 + ["cpu-batch"] * 2


def test_a_batched_device_is_one_of_those_that_an_estimator_trains_on() -> None:
    together, alone = (
        build(resolve("estimator", f"{PLUGINS}:{name}", {})) for name in ("Together", "Alone")
    )
    assert devices_of(together) == ("cpu", "cuda", "cpu-batch", "cuda-batch")
    assert devices_of(alone) == ("cpu", "cuda")
    spec = resolve("estimator", f"{PLUGINS}:Alone", {})
    record = run_trial(Trial(WORLD, spec, 0, device=Device.CPU_BATCH), Workspace())
    assert record.status is Status.UNAVAILABLE


@pytest.mark.skipif("__import__('importlib').util.find_spec('torch') is None")
def test_a_batched_gpu_without_a_gpu_is_unavailable() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    record = run_trial(trial(device=Device.CUDA_BATCH), Workspace())
    assert record.status is Status.UNAVAILABLE
    assert "no CUDA device" in str(record.error_message)
