"""What one trial changes in its process never reaches another: every leak, every kind of trial."""

from __future__ import annotations

import functools
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from support.leaking_plugins import LEAKS
from support.paths import SUPPORT

FILE = str(SUPPORT / "leaking_plugins.py")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="some settings are Linux's")

# One estimator of each kind of computation: arithmetic, linear models, boosting, networks, flows,
# kernels.
INNOCENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ipw", {}),
    ("mips", {}),
    ("epws", {}),
    ("epws", {"classifier": "mlp"}),
    ("fepws", {"flow_params": {"epochs": 3}}),
)


@functools.cache
def trial(name: str, params: tuple[tuple[str, Any], ...] = (), replicate: int = 0) -> Trial:
    world = resolve("environment", "saito-toy", {"n_samples": 60})
    return Trial(world, resolve("estimator", name, dict(params)), replicate)


def innocents() -> list[Trial]:
    world = resolve("environment", "saito-toy", {"n_samples": 60})
    return [Trial(world, resolve("estimator", *asked), 0) for asked in INNOCENTS]


def leaking(leak: str) -> Trial:
    return trial(f"{FILE}:Leaking", (("leak", leak),))


def run(trials: Sequence[Trial]) -> list[TrialRecord]:
    """Their records, from one worker as long as it lives, in this order."""
    with LocalExecutor(1, timeout=120) as executor:
        found = [event.record for event in executor.run(trials) if isinstance(event, Finished)]
    assert [record.key for record in found] == [one.key for one in trials]
    return found


def bits(records: Sequence[TrialRecord]) -> list[Any]:
    return [
        (one.trial.estimator.id, one.answer, one.error_message, one.truth_empirical)
        for one in records
    ]


# Every leak costs a new worker, and those of torch its import. What disturbs nothing but numbers
# is therefore changed by one trial, whose note must name each; what may break the harness or
# Python itself is changed alone.
OF_TORCH = [leak for leak, (_, name) in LEAKS.items() if leak.startswith("torch") and name]
OF_LIBRARIES = ["sklearn", "scipy-special", "numpy-print", "numpy-generator", "decimal"]
OF_PYTHON = ["garbage", "switch-interval", "integer-digits", "sockets", "locale", "start-method"]
OF_THE_PROCESS = ["environment-set", "folder", "umask", "blocked-signals", "affinity"]
TOGETHER = [*OF_LIBRARIES, *OF_PYTHON, *OF_THE_PROCESS]
ALONE = [leak for leak in LEAKS if leak not in TOGETHER and not leak.startswith("torch")]
# What these change is set for every trial anew, and the worker stays in use.
UNSEEN = ("numpy-seed", "numpy-errors", "warnings", "torch-seed", "random-seed")


def check(leak: str, records: Sequence[TrialRecord], expected: Sequence[Any]) -> None:
    guilty, *others = records
    assert guilty.status is Status.OK, guilty.error_message
    name = LEAKS[leak][1]
    if name is None:
        assert guilty.note is None
    else:
        assert name in (guilty.note or ""), guilty.note
    assert bits(others) == list(expected)
    assert {record.note for record in others} <= {None}, "the blame is the leaking trial's"


def cheap() -> list[Trial]:
    """Two data sets, so that neither is sampled where a leak may still be."""
    return [trial("ipw"), trial("ipw", (), 1)]


def drawing() -> list[Trial]:
    """Trials that draw from torch, which one imports in its own fit and the other before it."""
    return [trial(f"{FILE}:Drawing", (("requires_torch", first),)) for first in (False, True)]


Group = Sequence[TrialRecord]


@dataclass
class TorchRecords:
    """Records of three workers with torch, each of which is replaced after a leak.

    The first worker is clean until `reversed_leaks`, the second imports torch in a trial that
    changes it, the third runs `afterwards`.
    """

    clean_drawing: Group
    clean_kinds: Group
    clean_cheap: Group
    unseen: list[Group]
    reversed_leaks: TrialRecord
    leaks: TrialRecord
    afterwards: Group


@pytest.fixture(scope="module")
def torch_records() -> TorchRecords:
    pytest.importorskip("torch")
    kinds = innocents()
    every, again = "+".join(OF_TORCH), "+".join(reversed(OF_TORCH))
    asked: list[list[Trial]] = [drawing(), kinds, cheap()]
    asked += [[leaking(leak), one] for leak, one in zip(UNSEEN, kinds, strict=True)]
    asked += [[leaking(again)], [leaking(every)], [*drawing()[::-1], *cheap()]]
    records = iter(run([one for group in asked for one in group]))
    draws, of_kinds, of_cheap, *unseen, backwards, forwards, afterwards = (
        [next(records) for _ in group] for group in asked
    )
    return TorchRecords(draws, of_kinds, of_cheap, unseen, backwards[0], forwards[0], afterwards)


def test_every_kind_of_estimator_gives_the_bits_of_a_clean_worker(
    torch_records: TorchRecords,
) -> None:
    clean = torch_records.clean_kinds
    assert {record.status for record in clean} == {Status.OK}, bits(clean)
    assert {record.note for record in clean} == {None}, "built-in estimators change nothing"
    for leak, pair, expected in zip(UNSEEN, torch_records.unseen, bits(clean), strict=True):
        check(leak, pair, [expected])


@pytest.mark.parametrize("leak", OF_TORCH)
def test_a_leak_into_torch_reaches_no_other_trial(leak: str, torch_records: TorchRecords) -> None:
    clean = bits([*torch_records.clean_drawing[::-1], *torch_records.clean_cheap])
    check(leak, [torch_records.leaks, *torch_records.afterwards], clean)
    # Had it reached the worker of `leaks`, that trial would have changed nothing.
    check(leak, [torch_records.reversed_leaks], [])


def test_the_first_torch_trial_of_a_worker_is_seeded_as_all_others(
    torch_records: TorchRecords,
) -> None:
    # Each is the first of a worker once.
    clean = torch_records.clean_drawing
    assert {record.status for record in clean} == {Status.OK}
    assert bits(torch_records.afterwards[:2]) == bits(clean)[::-1]


@pytest.fixture(scope="module")
def other_records() -> dict[str, list[TrialRecord]]:
    """By leak: the leaking trial's record, and those of the others that ran next."""
    leaks = ["+".join(TOGETHER), *ALONE]
    records = run([one for leak in leaks for one in (leaking(leak), *cheap())])
    found = {leak: records[3 * i : 3 * i + 3] for i, leak in enumerate(leaks)}
    return {**dict.fromkeys(TOGETHER, found[leaks[0]]), **found}


@pytest.mark.parametrize("leak", [*TOGETHER, *ALONE])
def test_a_leak_reaches_no_other_trial_and_is_noted_on_its_own(
    leak: str, other_records: dict[str, list[TrialRecord]], clean_cheap: list[Any]
) -> None:
    check(leak, other_records[leak], clean_cheap)


@pytest.fixture(scope="module")
def clean_cheap() -> list[Any]:
    """The bits of a worker in which nothing else has run."""
    return bits(run(cheap()))


def test_data_do_not_depend_on_who_asks_first_nor_on_what_sampling_changes() -> None:
    world = resolve("environment", f"{FILE}:LeakingCoins", {"leak": "decimal"})
    specs = [resolve("estimator", name) for name in (f"{FILE}:Averaging", "logging-average")]
    trials = [Trial(world, spec, 0) for spec in specs]
    forwards, backwards = run(trials), run(trials[::-1])[::-1]
    assert bits(forwards) == bits(backwards)
    assert bits(forwards)[0][1][0] is Status.OK
    # Each has a worker of its own, in which the data are sampled anew.
    notes = [record.note for record in (*forwards, *backwards)]
    assert notes == ["changed the context of decimal numbers"] * 4


def test_many_files_left_open_cost_a_worker_not_a_trial() -> None:
    held = [trial(f"{FILE}:Holding", (), replicate) for replicate in range(2)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limits[1]))
    try:
        assert {record.status for record in run(held)} == {Status.OK}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
