"""Chunks, and what the coordinator makes of its workers' answers: no process needed."""

from __future__ import annotations

from typing import Any

import pytest

from ope_bench.execution.dask.connection import findings, mismatches, questions, remedy
from ope_bench.execution.dask.executor import TARGET, Chunks, Nodes, refusal
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Device

WORLD = PluginSpec("environment", "w", "w")


def trials(count: int, *, device: Device = Device.CPU, method: str = "m") -> list[Trial]:
    spec = PluginSpec("estimator", method, method)
    return [Trial(WORLD, spec, replicate, device=device) for replicate in range(count)]


def drained(chunks: Chunks, workers: int, seconds: float) -> list[list[Trial]]:
    """All chunks, each learned from, workers in turn."""
    taken = []
    while chunks.left:
        for worker in range(workers):
            if chunk := chunks.take(worker, workers):
                taken.append(chunk)
                chunks.learned(chunk[0], seconds)
    return taken


def test_chunks_begin_with_one_grow_to_their_target_and_shrink_at_the_end() -> None:
    plan = trials(400)
    sizes = [len(chunk) for chunk in drained(Chunks(plan, {}), 2, 1 / 64)]
    assert sum(sizes) == 400
    assert sizes[0] == 1
    assert max(sizes) == 64 * TARGET
    assert sizes[-1] == 1
    assert sizes[sizes.index(max(sizes)) :] == sorted(sizes[1:], reverse=True)


def test_long_trials_go_one_by_one() -> None:
    assert {len(chunk) for chunk in drained(Chunks(trials(20), {}), 3, 60.0)} == {1}


def test_every_trial_is_handed_out_once_whatever_is_put_back() -> None:
    plan = trials(50)
    chunks = Chunks(plan, {})
    found: list[Trial] = []
    for number in range(1_000):
        chunk = chunks.take(number % 3, 3)
        kept = chunk[: len(chunk) // 2 + 1]
        chunks.put_back(number % 3, chunk[len(kept) :])
        found += kept
        for trial in kept:
            chunks.learned(trial, 0.02)
    assert chunks.left == 0
    assert sorted(trial.replicate for trial in found) == list(range(50))


def test_a_block_that_is_trained_together_is_one_chunk_also_after_a_loss() -> None:
    size = Device.CPU_BATCH.block_size
    plan = trials(3 * size, device=Device.CPU_BATCH)
    chunks = Chunks(plan, {})
    taken = drained(chunks, 2, 0.3)
    assert [len(chunk) for chunk in taken] == [size] * 3
    assert all(len({trial.group for trial in chunk}) == 1 for chunk in taken)
    assert chunks.lost(taken[0], 3) == []
    assert chunks.take(0, 2) == taken[0]


def test_trials_of_a_lost_chunk_go_one_by_one_and_so_often() -> None:
    plan = trials(4)
    chunks = Chunks(plan, {})
    taken = drained(chunks, 1, 1e-6)
    suspects = [trial for chunk in taken for trial in chunk]
    assert chunks.lost(suspects, 2) == []
    assert chunks.left == 4
    first = chunks.take(0, 1)
    assert len(first) == 1
    assert chunks.lost(first, 2) == first
    assert [len(chunk) for chunk in drained(chunks, 1, 1e-6)] == [1, 1, 1]


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    from ope_bench.plugins.spec import resolve

    specs = [resolve("environment", "gaussian"), resolve("estimator", "ipw")]
    return findings(questions(specs))


def changed(here: dict[str, Any], number: int, **facts: Any) -> dict[str, Any]:
    plugins = [dict(plugin) for plugin in here["plugins"]]
    plugins[number] |= facts
    return {**here, "plugins": plugins}


def test_an_equal_worker_differs_in_nothing(here: dict[str, Any]) -> None:
    assert mismatches(here, here) == []


@pytest.mark.parametrize(
    ("number", "facts", "told"),
    [
        (1, {"code": "other"}, "other code of estimator 'ipw' there"),
        (0, {"data": "other"}, "other data files of environment 'gaussian' there"),
        (1, {"origin": "ope-bench 9"}, "estimator 'ipw' of ope-bench 9 there, of ope-bench"),
        (1, {"lacks": ["numba"]}, "no module numba there, which estimator 'ipw' needs"),
        (1, {"problem": "PluginError: unknown"}, "no estimator 'ipw' (ope-bench"),
    ],
)
def test_each_difference_is_told(
    here: dict[str, Any], number: int, facts: dict[str, Any], told: str
) -> None:
    (line,) = mismatches(here, changed(here, number, **facts))
    assert line.startswith(told)


def test_versions_are_told_with_what_to_install(here: dict[str, Any]) -> None:
    there = {**here, "packages": {**here["packages"], "numpy": "1.0", "scipy": None}}
    numpy, scipy = here["packages"]["numpy"], here["packages"]["scipy"]
    assert mismatches(here, there) == [
        f"numpy 1.0 there, {numpy} here",
        f"no scipy there, {scipy} here",
    ]
    assert f"pip install numpy=={numpy} scipy=={scipy}, then" in remedy(here, there)


def test_workers_refused_for_one_reason_share_a_line(here: dict[str, Any]) -> None:
    members = Nodes(here)
    for worker in ("tcp://b", "tcp://a", "tcp://c", "tcp://d", "tcp://e"):
        members.accept_or_refuse(worker, {**here, "python": "3.99"})
    line = refusal(members.refused)
    assert line.startswith("workers tcp://a, tcp://b, tcp://c and 2 more: Python 3.99 there")


def test_workers_are_those_of_the_nodes_up_to_the_jobs_asked_for(here: dict[str, Any]) -> None:
    told = {**here, "threads": 4, "gpus": 2}
    members = Nodes(here, most=6)
    members.accept_or_refuse("tcp://a", told)
    members.accept_or_refuse("tcp://b", told)
    assert sum(not worker.gpu for worker in members.workers) == 6
    assert sum(worker.gpu for worker in members.workers) == 4
    assert sorted(worker.number for worker in members.workers) == list(range(10))
    full = {worker.node: members.full(worker) for worker in members.workers if not worker.gpu}
    assert full == {"tcp://a": True, "tcp://b": False}
    removed = members.remove("tcp://a")
    assert len(removed) == 6
    members.accept_or_refuse("tcp://a", told)
    assert sorted(worker.number for worker in members.workers) == list(range(10))
