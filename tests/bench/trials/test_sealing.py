"""What one trial does to the data of all reaches no other trial, and costs its own."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import mmap
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np
import pytest

from ope_bench import View
from ope_bench.contracts.view import FitCache
from ope_bench.execution import Executor, Finished
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.spec import resolve
from ope_bench.testing.problems import Given
from ope_bench.trials.patches import patches_noted
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.sealing import Seal
from ope_bench.trials.trial import build
from support import careless_plugins
from support.careless_plugins import PATCHES, WAYS, Odd
from support.paths import SUPPORT

FILE = str(SUPPORT / "careless_plugins.py")
TORCH = ("torch-scale", "torch-subtract")
PAST_NUMPY = (*TORCH, "sort-past-numpy", "thread")
OF_ODD = ("strided", "spread", "turned", "words", "masked", "tensor")
SILENT = "private-arrays"
COMMON = [way for way in WAYS if way not in (*OF_ODD, *PATCHES)]


@functools.cache
def trial(name: str, way: str = "", how: str | None = None) -> Trial:
    toy = resolve("environment", "saito-toy", {"n_samples": 60, "n_actions": 5})
    world = toy if how is None else resolve("environment", f"{FILE}:OddWorld", {"how": how})
    return Trial(world, resolve("estimator", name, {"way": way} if way else {}), 0)


def run(executor: Executor, trials: Sequence[Trial]) -> list[TrialRecord]:
    found = [event.record for event in executor.run(trials) if isinstance(event, Finished)]
    assert [record.key for record in found] == [one.key for one in trials]
    return found


def bits(records: Sequence[TrialRecord]) -> list[Any]:
    return [(one.trial.estimator.id, one.answer, one.note, one.error_message) for one in records]


def innocents(how: str | None = None) -> list[Trial]:
    names = ("ipw", "logging-average") if how is not None else ("ipw", "eipw", "dm", "ipws")
    return [trial(name, how=how) for name in names]


def attacked(
    executor: Executor, ways: Sequence[str], how: str | None = None
) -> dict[str, TrialRecord]:
    """The records of the attacks, after each of which others have the bits of a clean run."""
    with executor:
        clean = bits(run(executor, innocents(how)))
        guilty = {}
        for way in ways:
            careless = trial(f"{FILE}:Careless", way, how)
            guilty[way], *others = run(executor, [careless, *innocents(how)])
            assert bits(others) == clean, way
    assert all(answer[0] == "ok" for _, answer, *_ in clean)
    return guilty


@pytest.fixture(scope="module")
def in_a_worker() -> dict[str, TrialRecord]:
    pytest.importorskip("torch")
    return attacked(LocalExecutor(1, timeout=120), COMMON)


@pytest.fixture(scope="module")
def in_process() -> dict[str, TrialRecord]:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        # Of torch, once a process: that it does not respect read-only arrays.
        warnings.simplefilter("ignore")
        return attacked(InProcessExecutor(), COMMON)


@pytest.mark.parametrize("way", COMMON)
def test_data_changed_in_a_worker_cost_the_trial_that_changes_them(
    way: str, in_a_worker: dict[str, TrialRecord]
) -> None:
    record = in_a_worker[way]
    message = record.error_message or ""
    if way == SILENT:
        assert record.status == "ok"  # a policy could have done it; the data are sampled anew
    elif way in PAST_NUMPY:
        assert record.status == "crash"
        assert "died of SIGSEGV in fit or estimate" in message
    else:
        assert record.status == "error", message
    if way in TORCH:
        lines = (SUPPORT / "careless_plugins.py").read_text(encoding="utf-8").splitlines()
        file, _, rest = message.partition(".py:")
        place = lines[int(rest.partition(":")[0]) - 1]
        assert file.endswith("careless_plugins"), message
        assert ("x -= x.mean(0)" if way == "torch-scale" else ".sub_(1.0)") in place
        assert "copy first" in message
        assert "--arithmetic native" in message


@pytest.mark.parametrize("way", COMMON)
def test_data_changed_in_this_process_are_an_error_that_names_them(
    way: str, in_process: dict[str, TrialRecord]
) -> None:
    record = in_process[way]
    if way == SILENT:
        assert record.status == "ok"
        return
    assert (record.status, record.estimate) == ("error", None)
    named = {
        "torch-scale": "context",
        "torch-subtract": "reward",
        "sort-past-numpy": "reward",
        "thread": "propensity",
        "attribute": "target_policy.n_actions",
        "attribute-deleted": "logging_policy.beta",
        "another-method": "target_policy.probability",
        "another-class": "target_policy.__class__",
        "shape": "reward",
        "dtype": "reward",
    }
    if way in named:
        assert f": {named[way]}; copy first" in (record.error_message or "")


@pytest.mark.parametrize("how", ["", "objects", "masked", "lock", "tensor"])
@pytest.mark.parametrize("executor", [InProcessExecutor, LocalExecutor])
def test_an_odd_policy_survives_all_attacks_or_its_records_say_that_it_was_compared(
    how: str, executor: type[Any]
) -> None:
    if how == "tensor":
        pytest.importorskip("torch")
    guilty = attacked(executor(), OF_ODD, how)
    # Attacks on what this policy lacks do nothing.
    lacking = {"words": "objects", "masked": "masked", "tensor": "tensor"}
    for way, record in guilty.items():
        harmless = lacking.get(way, how) != how
        assert (record.status == "ok") == harmless, (way, record.error_message)
        assert ("compared after each trial" in record.environment_origin) == (how != "")


class _Slots:
    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array = np.ones(3)


def _default(array: Any = np.ones(3)) -> Any:  # noqa: B008  where a policy may keep it
    return array


@pytest.mark.parametrize(
    ("kept", "change"),
    [
        pytest.param(_Slots(), lambda kept: kept.array, id="slots"),
        pytest.param(deque([np.ones(3)]), lambda kept: kept[0], id="deque"),
        pytest.param(_default, lambda kept: kept(), id="default of a function"),
        pytest.param(bytearray(b"abc"), lambda kept: kept, id="bytes"),
        pytest.param([1, 2], lambda kept: kept, id="list"),
        pytest.param({0: threading.Lock()}, lambda kept: kept, id="dictionary of locks"),
    ],
)
def test_arrays_are_compared_wherever_a_policy_without_a_pickle_keeps_them(
    kept: Any, change: Any
) -> None:
    policy: Any = Odd("lock")
    policy.kept = kept
    world = careless_plugins.OddWorld("lock")
    given, _ = world.sample(
        **{f"{name}_rng": np.random.default_rng(0) for name in ("world", "logged", "target")}
    )
    seal = Seal(dataclasses.replace(given, target_policy=policy))
    assert seal.compared
    assert seal.changes() == {}
    array = change(policy.kept)
    if isinstance(array, np.ndarray):
        array.flags.writeable = True
    array[0] = 7
    (path,) = seal.changes()
    assert path.startswith("target_policy.kept")


def test_a_tensor_that_records_gradients_is_compared() -> None:
    torch = pytest.importorskip("torch")
    policy: Any = Odd("lock")
    policy.weight = torch.nn.Parameter(torch.ones(3))
    world = careless_plugins.OddWorld("lock")
    given, _ = world.sample(
        **{f"{name}_rng": np.random.default_rng(0) for name in ("world", "logged", "target")}
    )
    seal = Seal(dataclasses.replace(given, target_policy=policy))
    assert seal.changes() == {}
    policy.weight.data.mul_(2.0)
    assert seal.changes() == {"target_policy.weight": True}


# Patches


@pytest.mark.parametrize("executor", [InProcessExecutor, LocalExecutor])
def test_what_a_trial_patches_is_named_and_moves_no_other_trial(executor: type[Any]) -> None:
    before = {name: vars(owner)[name] for owner, name in ((np, "mean"), (View, "fitted"))}
    # Each replaces its worker, which takes a second.
    ways = list(PATCHES)[:: 1 if executor is InProcessExecutor else 3]
    guilty = attacked(executor(), ways)
    for way in ways:
        assert guilty[way].note == f"patched {PATCHES[way][1]}", way
    assert (np.mean, View.fitted) == tuple(before.values())
    assert not hasattr(np, "halved")


@pytest.mark.parametrize(
    "module",
    [
        *("pandas", "matplotlib.pyplot", "torch", "sklearn.ensemble"),
        "polars; polars.Series(numpy.arange(3))",
    ],
)
def test_importing_a_library_is_no_patch(module: str) -> None:
    pytest.importorskip(re.split("[.;]", module)[0])
    code = (
        "from ope_bench.trials.patches import patches_noted\n"
        "import numpy\nwith patches_noted() as names: import " + module + "\n"
        "print(names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_watched_modules_can_be_pickled() -> None:
    with patches_noted():
        pass
    assert pickle.loads(pickle.dumps(np.linalg)) is np.linalg
    assert cloudpickle.loads(cloudpickle.dumps(lambda: np.pi))() == np.pi


def test_arrays_of_shared_fits_are_read_only() -> None:
    class Fit:
        def __init__(self) -> None:
            self.values = np.ones(3)

    entry = FitCache().get("a", lambda inner: Fit())
    with pytest.raises(ValueError, match="read-only"):
        entry.value.values[0] = 2.0


def test_a_shared_fit_whose_attribute_is_replaced_is_told_and_discarded() -> None:
    innocent = trial(f"{FILE}:SharedMean")
    with InProcessExecutor() as executor:
        clean, guilty, again = run(
            executor, [innocent, trial(f"{FILE}:Careless", "fit"), innocent]
        )
    assert guilty.status == "error"
    assert "Mean()@cpu; copy first" in (guilty.error_message or "")
    assert bits([again]) == bits([clean])


# The seal itself


@pytest.fixture(params=[True, False], ids=["mapped", "in bytes"])
def seal(request: pytest.FixtureRequest) -> Seal:
    return Seal(sampled(), mapped=request.param)


def sampled(name: str = "saito-toy", **params: Any) -> Any:
    spec = resolve("environment", name, {"n_samples": 50, **params})
    seed = Trial(spec, resolve("estimator", "ipw"), 0).data_seed
    problem, _ = build(spec).sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    return problem


def odd_problem(how: str) -> Any:
    rngs = {f"{kind}_rng": np.random.default_rng(0) for kind in ("world", "logged", "target")}
    return careless_plugins.OddWorld(how).sample(**rngs)[0]


def arrays(problem: Any) -> dict[str, np.ndarray[Any, Any]]:
    units = dict(zip(("unit of rows", "target unit"), problem.row_units, strict=True))
    return {
        name: array
        for name, array in (vars(problem) | units).items()
        if isinstance(array, np.ndarray)
    }


def test_a_sealed_problem_is_equal_and_has_no_array_that_can_be_opened(seal: Seal) -> None:
    before = sampled()
    assert seal.problem is not before
    assert not seal.compared
    found = arrays(seal.problem)
    assert found.keys() == arrays(before).keys()
    for name, array in found.items():
        want = arrays(before)[name]
        assert array.tobytes() == want.tobytes(), name
        assert (array.dtype, array.strides) == (want.dtype, want.strides), name
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
            with pytest.raises(ValueError, match="WRITEABLE"):
                base.flags.writeable = True
        with pytest.raises(TypeError):
            memoryview(base.base)[0] = 0  # type: ignore[arg-type]


def test_arrays_that_share_memory_still_do(seal: Seal) -> None:
    problem = seal.problem
    assert problem.shared_contexts
    assert np.shares_memory(problem.context, problem.target_context)
    assert problem.row_units[0] is problem.row_units[1]


def test_policies_answer_as_before_and_hold_no_writeable_array(seal: Seal) -> None:
    before = sampled()
    for name in ("logging_policy", "target_policy"):
        sealed, was = getattr(seal.problem, name), getattr(before, name)
        assert np.array_equal(sealed.table(before.context), was.table(before.context))
    assert seal.changes() == {}


def test_the_environments_own_arrays_are_not_those_of_trials() -> None:
    rewards = np.zeros(40)
    problem = Given(n_samples=40).sample(
        world_rng=np.random.default_rng(0),
        logged_rng=np.random.default_rng(1),
        target_rng=np.random.default_rng(2),
    )[0]
    object.__setattr__(problem, "reward", rewards)
    seal = Seal(problem)
    ctypes.memset(seal.problem.reward.ctypes.data, 1, 8)
    assert seal.changes() == {"reward": True}
    assert not rewards.any()


@pytest.mark.parametrize("how", ["", "objects", "masked", "lock"])
def test_strided_and_broadcast_arrays_keep_their_values(how: str) -> None:
    problem, policy = odd_problem(how), Odd(how)
    seal = Seal(problem, mapped=True)
    sealed: Any = seal.problem.target_policy
    for name in ("strided", "spread", "turned"):
        found = getattr(sealed, name)
        assert np.array_equal(found, getattr(policy, name))
        assert not found.flags.writeable
    assert seal.compared == (how != "")
    assert (seal.problem is problem) == (how == "lock")
    if how == "":
        # The broadcast array takes no more memory than before.
        assert sealed.spread.strides[0] == 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            sealed.strided.flags.writeable = True


def test_attributes_that_policies_change_when_asked_are_no_change() -> None:
    seal = Seal(odd_problem(""))
    policy: Any = seal.problem.target_policy
    policy.calls += 1
    assert [one.rpartition(".")[2] for one in seal.changes()] == ["calls"]
    seal.forgive()
    policy.calls += 1
    assert seal.changes() == {}
    policy.strided = policy.turned
    # Both names hold this policy: the first is told.
    assert seal.changes() == {"logging_policy.strided": True}


def test_what_passed_once_as_a_cache_is_still_compared_afterwards() -> None:
    seal = Seal(odd_problem(""))
    policy: Any = seal.problem.target_policy
    policy._made = [1]
    assert seal.changes() == seal.changes() == {}
    policy.named = vars(policy).pop("_made")
    assert [*seal.changes()] == ["logging_policy.named"]
    policy._made = vars(policy).pop("named")
    policy._later = 2
    assert seal.changes() == {}
    policy.strided = policy.turned
    assert seal.changes() == seal.changes() == {"logging_policy.strided": True}


def test_what_a_policy_may_have_changed_itself_is_no_error_and_sampled_anew() -> None:
    policy = Odd("")
    held: Any = policy
    held._kept, held._scale, held.first, held.empty = None, 1.0, None, {}
    problem = dataclasses.replace(odd_problem(""), target_policy=policy)
    seal = Seal(problem, mapped=True)
    held = seal.problem.target_policy
    held._kept = np.ones(3)  # a cache
    held._new = 1
    assert seal.changes() == {}
    held._scale = 1.0  # equal
    assert seal.changes() == {}
    held._scale, held.first = 2.0, 3
    assert seal.changes() == {"target_policy._scale": False, "target_policy.first": False}
    held.empty["a"] = 1
    assert seal.changes()["target_policy.empty.a"]


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="Linux alone seals files")
def test_the_file_of_sealed_pages_cannot_be_written_nor_cut() -> None:
    def files() -> set[int]:
        folder = "/proc/self/fd"
        kept = [one for one in os.listdir(folder) if os.path.lexists(f"{folder}/{one}")]
        named = {int(one): os.readlink(f"{folder}/{one}") for one in kept}
        return {one for one, target in named.items() if "memfd:ope-bench" in target}

    before = files()
    seal = Seal(sampled(), mapped=True)
    (file,) = files() - before
    for change in (
        lambda: os.pwrite(file, b"\0" * 80, 0),
        lambda: os.ftruncate(file, 8),
        lambda: mmap.mmap(file, 0, access=mmap.ACCESS_WRITE),
    ):
        with pytest.raises(PermissionError):
            change()
    assert seal.changes() == {}


def test_a_problem_that_cannot_be_read_back_is_compared() -> None:
    problem = sampled()

    class Refusing:
        values = np.ones(3)

        def __reduce__(self) -> Any:
            raise pickle.PicklingError

    held = Refusing()
    held.values = np.ones(3)
    problem.target_policy.more = held
    seal = Seal(problem, mapped=True)
    assert seal.compared
    assert seal.problem is problem
    ctypes.memset(held.values.ctypes.data, 0, 8)
    assert seal.changes() == {"target_policy.more.values": True}
