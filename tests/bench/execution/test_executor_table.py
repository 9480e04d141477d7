"""Executors are chosen by name, made when they are used, and take the options that they list."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ope_bench.base.errors import UsageError
from ope_bench.execution import Limits
from ope_bench.execution.executors import EXECUTORS, ExecutorOptions


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_executor_of_the_table_has_all_that_a_run_needs(name: str) -> None:
    executor = EXECUTORS[name].create(ExecutorOptions(jobs=2, timeout=5.0))
    try:
        assert isinstance(executor.limits, Limits)
        assert executor.jobs == (2 if "--jobs" in EXECUTORS[name].options else 1)
        assert all(callable(getattr(executor, word)) for word in ("run", "stop", "close"))
    finally:
        executor.close()


def test_limits_hold_where_trials_can_be_killed() -> None:
    options = ExecutorOptions(timeout=5.0, memory=1 << 30)
    limits = {name: kind.create(options).limits for name, kind in EXECUTORS.items()}
    assert limits["local"] == limits["dask"] == Limits(timeout=5.0, memory=1 << 30)
    assert limits["inprocess"] == Limits()


def test_the_table_is_read_without_importing_what_it_names() -> None:
    code = (
        "import sys\n"
        "from ope_bench.execution.executors import EXECUTORS\n"
        "print(sorted({'distributed', 'ope_bench.execution.local'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_scheduler_is_asked_at_once_if_there_is_something_to_run(monkeypatch: Any) -> None:
    pytest.importorskip("distributed")
    somewhere = ExecutorOptions(address="pigeon://x")
    EXECUTORS["dask"].create(somewhere).close()
    from ope_bench.plugins.spec import resolve

    planned = ExecutorOptions(address="pigeon://x", plugins=[resolve("estimator", "ipw")])
    with pytest.raises(UsageError, match="no Dask scheduler answers at pigeon://x"):
        EXECUTORS["dask"].create(planned)
