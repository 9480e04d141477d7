"""What one trial changes in its process never reaches another: every leak, every kind of trial."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
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
    ("fepws", {}),
)


@functools.cache
def trial(name: str, params: tuple[tuple[str, Any], ...] = (), replicate: int = 0) -> Trial:
    world = resolve("environment", "saito-toy", {"n_samples": 60})
    return Trial(world, resolve("estimator", name, dict(params)), replicate)


def innocents() -> list[Trial]:
    return [trial(name, tuple(params.items())) for name, params in INNOCENTS]


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


def after_each(leaks: Iterable[str], others: Sequence[Trial]) -> dict[str, list[TrialRecord]]:
    """By leak: the leaking trial's record, and those of the others that ran next."""
    names = list(leaks)
    records = run([one for leak in names for one in (leaking(leak), *others)])
    step = 1 + len(others)
    return {leak: records[i * step : (i + 1) * step] for i, leak in enumerate(names)}


def of_torch(leak: str) -> bool:
    return leak.startswith("torch")


def check(leak: str, records: Sequence[TrialRecord], expected: Sequence[Any]) -> None:
    guilty, *others = records
    assert guilty.status is Status.OK, guilty.error_message
    name = LEAKS[leak][1]
    if name is None:
        assert guilty.note is None
    else:
        assert name in (guilty.note or ""), guilty.note
    assert bits(others) == list(expected)
    assert {record.note for record in others} == {None}, "the blame is the leaking trial's"


Checked = tuple[dict[str, list[TrialRecord]], list[Any]]


@pytest.fixture(scope="module")
def quick() -> Checked:
    """Every leak before cheap trials, on its own data set and on another.

    Only where the worker that ends has torch, the next one imports it, too: that takes seconds.
    """
    pytest.importorskip("torch")
    cheap = [trial("ipw"), trial("ipw", (), 1)]
    with_torch = [*cheap, trial(f"{FILE}:Drawing")]
    records = after_each(filter(of_torch, LEAKS), with_torch)
    records |= after_each((leak for leak in LEAKS if not of_torch(leak)), cheap)
    return records, bits(run(with_torch))


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_reaches_no_other_trial_and_is_noted_on_its_own(leak: str, quick: Checked) -> None:
    records, expected = quick
    check(leak, records[leak], expected[: len(records[leak]) - 1])


@pytest.mark.slow
def test_every_kind_of_estimator_gives_the_bits_of_a_clean_worker() -> None:
    pytest.importorskip("torch")
    clean = run(innocents())
    assert {record.status for record in clean} == {Status.OK}, bits(clean)
    assert {record.note for record in clean} == {None}, "built-in estimators change nothing"
    # Leaks of all sorts take turns: whichever it is, the worker is replaced.
    leaks = list(LEAKS)[:: len(LEAKS) // len(INNOCENTS)][: len(INNOCENTS)]
    pairs = zip(leaks, innocents(), strict=True)
    records = run([one for leak, innocent in pairs for one in (leaking(leak), innocent)])
    for number, (leak, expected) in enumerate(zip(leaks, bits(clean), strict=True)):
        check(leak, records[2 * number : 2 * number + 2], [expected])


@pytest.mark.parametrize("leak", ["torch-dtype", "torch-grad", "sklearn"])
def test_a_leak_by_whoever_imports_the_library_first_is_undone_too(leak: str) -> None:
    pytest.importorskip("torch")
    after = trial(f"{FILE}:Drawing")
    records = after_each([leak], [after])[leak]
    check(leak, records, bits(run([after])))


@pytest.mark.parametrize("requires", [True, False])
def test_the_first_torch_trial_of_a_worker_is_seeded_as_all_others(requires: bool) -> None:
    pytest.importorskip("torch")
    asked = (("requires_torch", requires),)
    three = [trial(f"{FILE}:Drawing", asked, replicate) for replicate in range(3)]
    together = bits(run(three))
    assert bits(run(three[::-1]))[::-1] == together
    # The first and the last of them were the first of a worker there.
    assert bits(run(three[1:2])) == together[1:2]


def test_data_do_not_depend_on_who_asks_first_nor_on_what_sampling_changes() -> None:
    pytest.importorskip("torch")
    world = resolve("environment", f"{FILE}:LeakingCoins")
    specs = [resolve("estimator", f"{FILE}:Drawing"), resolve("estimator", "logging-average")]
    trials = [Trial(world, spec, 0) for spec in specs]
    forwards, backwards = run(trials), run(trials[::-1])[::-1]
    assert bits(forwards) == bits(backwards)
    assert bits(forwards)[0][1][0] is Status.OK
    # Each has a worker of its own, in which the data are sampled anew.
    notes = [record.note for record in (*forwards, *backwards)]
    assert notes == ["changed torch's default type"] * 4


def test_many_files_left_open_cost_a_worker_not_a_trial() -> None:
    held = [trial(f"{FILE}:Holding", (), replicate) for replicate in range(12)]
    assert {record.status for record in run(held)} == {Status.OK}
