"""Portable workers give the same bits whatever their parent's environment asks of libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from ope_bench.execution import Arithmetic, Finished, machine
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import (
    arithmetic_facts,
    arithmetic_variables,
    machine_facts,
    mode_of,
    same_arithmetic,
    software_changes,
)
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import Trial

FIXED = arithmetic_variables("portable")
needs_fixed = pytest.mark.skipif(not FIXED, reason="kernels are fixed on x86-64 with AVX2")


def found_features() -> set[str]:
    """What numpy finds in this processor, whatever the environment of these tests disables."""
    code = "import json, numpy; print(json.dumps(numpy.show_config(mode='dicts')))"
    free = {name: value for name, value in os.environ.items() if not name.startswith("NPY_")}
    told = subprocess.run(
        [sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True
    )
    return {*json.loads(told.stdout)["SIMD Extensions"]["found"]}


BEYOND = sorted(found_features() - {*FIXED.get("NPY_ENABLE_CPU_FEATURES", "").split()})
UNSET: dict[str, str] = {}
LIMITED = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": " ".join(BEYOND)}
# Kernels that the processor can execute, and that are not the portable ones.
OTHER = {"OPENBLAS_CORETYPE": "SkylakeX" if BEYOND else "Nehalem", "MKL_CBWR": "AUTO"}

SMALL = resolve("environment", "saito-mips", {"n_samples": 100, "n_actions": 10})
CHEAP: dict[str, dict[str, Any]] = {
    "el-ipw": {},
    "dm": {"regressor": "ridge"},
    "dr": {"regressor": "gbm"},
    "mips": {},
    "epws": {"classifier": "logistic"},
    "riesz": {},
    "kmm": {},
}
FLOW: dict[str, dict[str, Any]] = {"fepws": {"flow_params": {"epochs": 2}}}


def set_all(patch: pytest.MonkeyPatch, setting: Mapping[str, str]) -> None:
    for name in FIXED:
        patch.delenv(name, raising=False)
    for name, value in setting.items():
        patch.setenv(name, value)


def answers(
    estimators: Mapping[str, dict[str, Any]], arithmetic: Arithmetic = "portable"
) -> dict[str, Any]:
    trials = [
        Trial(SMALL, resolve("estimator", name, params), 0, seed=1)
        for name, params in estimators.items()
    ]
    with LocalExecutor(arithmetic=arithmetic) as executor:
        records = [event.record for event in executor.run(trials) if isinstance(event, Finished)]
    assert {record.status.value for record in records} <= {"ok", "unavailable"}
    return {
        record.trial.estimator.id: (record.truth_expected, *record.answer) for record in records
    }


@needs_fixed
def test_portable_workers_give_the_same_bits_in_any_environment_and_native_ones_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, UNSET)
    portable = answers({**CHEAP, **FLOW})
    set_all(monkeypatch, {**LIMITED, **OTHER})
    assert answers({**CHEAP, **FLOW}) == portable
    native = answers({"kmm": CHEAP["kmm"]}, "native")
    assert native["kmm"] != portable["kmm"], "the sample does not tell kernels apart"


def facts_of(environment: Mapping[str, str]) -> dict[str, Any]:
    clean = {name: value for name, value in os.environ.items() if name not in FIXED}
    code = (
        "import json; from ope_bench.execution.machine import *; "
        "print(json.dumps([arithmetic_variables('portable'), arithmetic_facts(), "
        "worker_arithmetic('portable')]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**clean, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = ("variables", "own", "portable")
    return dict(zip(names, json.loads(done.stdout), strict=True))


@needs_fixed
def test_facts_name_the_kernels_of_a_process_and_those_of_its_portable_workers() -> None:
    told = [facts_of(setting) for setting in (UNSET, LIMITED, OTHER)]
    for one in told:
        assert one["variables"] == FIXED
        assert one["portable"] == told[0]["portable"]
        assert one["own"]["mode"] == "native"
    portable = told[0]["portable"]
    assert (portable["mode"], portable["blas_kernels"]) == ("portable", ["Haswell"])
    assert portable["torch_capability"] in ("AVX2", None)
    assert not {*BEYOND} & {*portable["numpy_simd"]}
    assert told[1]["own"]["numpy_simd"] == portable["numpy_simd"]
    assert told[2]["own"]["blas_kernels"] == [OTHER["OPENBLAS_CORETYPE"]]
    assert facts_of(FIXED)["own"] == portable


def test_torchs_level_is_what_torch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    if not FIXED:
        pytest.skip("its level is told on x86-64 alone")
    assert arithmetic_facts()["torch_capability"] == torch.backends.cpu.get_cpu_capability()
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert arithmetic_facts()["torch_capability"] == "AVX2"


def test_where_nothing_can_be_fixed_nothing_is_and_facts_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_cpu_flags", lambda: frozenset({"asimd"}))
    assert arithmetic_variables("portable") == {}
    assert arithmetic_facts()["mode"] == "native"
    assert arithmetic_variables("native") == {}


def test_machines_are_the_same_if_their_kernels_and_versions_are() -> None:
    here = {**machine_facts(), "cpu": "one"}
    there = {**here, "cpu": "other"}
    fixed = {"arithmetic": {**here["arithmetic"], "mode": "portable"}}
    assert same_arithmetic(here, here)
    assert not same_arithmetic(here, there), "other libraries choose by the processor as well"
    assert same_arithmetic({**here, **fixed}, {**there, **fixed})
    assert not same_arithmetic(here, {**here, **fixed})
    assert not same_arithmetic(here, {**here, "packages": {}})
    other = {**here["arithmetic"], "blas_kernels": ["Zen"]}
    assert not same_arithmetic(here, {**here, "arithmetic": other})
    (told,) = software_changes(here, {**here, "arithmetic": other})
    assert told.endswith("-> Zen")


def test_facts_of_earlier_releases_are_never_the_same() -> None:
    here = machine_facts()
    old = {name: value for name, value in here.items() if name != "arithmetic"}
    assert not same_arithmetic(old, old)
    assert not same_arithmetic(here, old)
    assert software_changes(old, here) == []


def test_a_clusters_machines_count_instead_of_the_coordinator() -> None:
    here = machine_facts()
    place = {"arithmetic": here["arithmetic"], "cpu": here["cpu"]}
    assert same_arithmetic(here, {**here, "cluster": [place, place]})
    assert not same_arithmetic(here, {**here, "cluster": [place, {**place, "arithmetic": None}]})


def test_trials_are_repeated_by_the_arithmetic_of_their_run() -> None:
    assert mode_of({"arithmetic": {"mode": "native"}}) == "native"
    assert mode_of({"arithmetic": {"mode": "portable"}}) == "portable"
    assert mode_of({}) == mode_of({"arithmetic": None}) == "portable"
