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


def after_each(leaks: Iterable[str], others: Sequence[Trial]) -> dict[str, list[TrialRecord]]:
    """By leak: the leaking trial's record, and those of the others that ran next."""
    names = list(leaks)
    records = run([one for leak in names for one in (leaking(leak), *others)])
    step = 1 + len(others)
    return {leak: records[i * step : (i + 1) * step] for i, leak in enumerate(names)}


# Every leak costs a new worker, and those of torch its import. What disturbs nothing but numbers
# is therefore changed by one trial, whose note must name each; what may break the harness or
# Python itself is changed alone.
OF_TORCH = [leak for leak, (_, name) in LEAKS.items() if leak.startswith("torch") and name]
OF_LIBRARIES = ["sklearn", "scipy-special", "numpy-print", "numpy-generator", "decimal"]
OF_PYTHON = ["garbage", "switch-interval", "integer-digits", "sockets", "locale", "start-method"]
TOGETHER = [*OF_LIBRARIES, *OF_PYTHON]
ALONE = [leak for leak in LEAKS if leak not in TOGETHER and not leak.startswith("torch")]


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


Checked = tuple[dict[str, list[list[TrialRecord]]], list[Any]]


@pytest.fixture(scope="module")
def quick() -> Checked:
    """Every leak before cheap trials, on its own data set and on another.

    The first trials of both workers import torch or scikit-learn themselves, to change it; torch
    is changed once more where another trial has imported it. Only where the worker that ends has
    torch, the next one imports it, too.
    """
    pytest.importorskip("torch")
    cheap = [trial("ipw"), trial("ipw", (), 1)]
    with_torch = [*cheap, trial(f"{FILE}:Drawing")]
    every, again = "+".join(OF_TORCH), "+".join(reversed(OF_TORCH))
    of_torch = after_each([every, again, "torch-seed"], with_torch)
    together = "+".join(TOGETHER)
    others = after_each([together, *ALONE], cheap)
    records = {
        **{leak: [of_torch[every], of_torch[again]] for leak in OF_TORCH},
        "torch-seed": [of_torch["torch-seed"]],
        **{leak: [others[together]] for leak in TOGETHER},
        **{leak: [others[leak]] for leak in ALONE},
    }
    return records, bits(run(with_torch))


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_reaches_no_other_trial_and_is_noted_on_its_own(leak: str, quick: Checked) -> None:
    records, expected = quick
    for found in records[leak]:
        check(leak, found, expected[: len(found) - 1])


@pytest.mark.slow
def test_every_kind_of_estimator_gives_the_bits_of_a_clean_worker() -> None:
    pytest.importorskip("torch")
    clean = run(innocents())
    assert {record.status for record in clean} == {Status.OK}, bits(clean)
    assert {record.note for record in clean} == {None}, "built-in estimators change nothing"
    # After these leaks the worker stays in use: what they change is set for every trial anew.
    leaks = ("numpy-seed", "numpy-errors", "warnings", "torch-seed", "random-seed")
    pairs = zip(leaks, innocents(), strict=True)
    records = run([one for leak, innocent in pairs for one in (leaking(leak), innocent)])
    for number, (leak, expected) in enumerate(zip(leaks, bits(clean), strict=True)):
        check(leak, records[2 * number : 2 * number + 2], [expected])


def test_the_first_torch_trial_of_a_worker_is_seeded_as_all_others() -> None:
    pytest.importorskip("torch")
    # One imports torch in its own fit, the other before it; each is the first of a worker once.
    two = [trial(f"{FILE}:Drawing", (("requires_torch", first),)) for first in (True, False)]
    assert bits(run(two[::-1]))[::-1] == bits(run(two))


def test_data_do_not_depend_on_who_asks_first_nor_on_what_sampling_changes() -> None:
    pytest.importorskip("torch")
    world = resolve("environment", f"{FILE}:LeakingCoins", {"leak": "decimal"})
    specs = [resolve("estimator", f"{FILE}:Drawing"), resolve("estimator", "logging-average")]
    trials = [Trial(world, spec, 0) for spec in specs]
    forwards, backwards = run(trials), run(trials[::-1])[::-1]
    assert bits(forwards) == bits(backwards)
    assert bits(forwards)[0][1][0] is Status.OK
    # Each has a worker of its own, in which the data are sampled anew.
    notes = [record.note for record in (*forwards, *backwards)]
    assert notes == ["changed the context of decimal numbers"] * 4


def test_many_files_left_open_cost_a_worker_not_a_trial() -> None:
    held = [trial(f"{FILE}:Holding", (), replicate) for replicate in range(12)]
    assert {record.status for record in run(held)} == {Status.OK}
