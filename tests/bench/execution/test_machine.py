"""Facts of the machine: each from one function, the same for doctor, runs and clusters."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import metadata

import pytest

from ope_bench.execution import machine


def test_machine_facts_name_what_numbers_depend_on() -> None:
    facts = machine.machine_facts()
    for name in ("numpy", "scipy", "scikit-learn", "threadpoolctl"):
        assert facts["packages"][name] == metadata.version(name)
    assert "rich" not in facts["packages"], "a package without influence would tell of changes"
    assert facts["plugins"]["ope-bench"] == metadata.version("ope-bench")
    assert facts["python"] == platform.python_version()
    assert facts["cpu"]
    assert facts["git"] is None or len(facts["git"]["revision"]) == 40
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is for Linux")
def test_cores_are_those_that_this_process_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    assert machine.available_cores() == len(allowed)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert machine.available_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_memory_is_the_machines() -> None:
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert machine.memory_bytes() == pytest.approx(pages, rel=0.01)


def test_thread_pools_name_the_libraries_of_numpy_and_scipy() -> None:
    pools = machine.thread_pools()
    assert pools
    assert all(pool["num_threads"] >= 1 for pool in pools)


def test_differences_tell_of_changed_missing_and_new_packages() -> None:
    before = {"packages": {"numpy": "1", "torch": "2"}, "plugins": {"a": "1"}, "python": "3.11"}
    now = {"packages": {"numpy": "2", "zuko": "1"}, "plugins": {"a": "1"}, "python": "3.12"}
    assert machine.software_changes(before, now) == [
        "numpy 1 -> 2",
        "torch 2 -> absent",
        "zuko absent -> 1",
        "python 3.11 -> 3.12",
    ]
    assert machine.software_changes(now, now) == []
