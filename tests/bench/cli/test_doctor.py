"""What doctor tells: versions, extras, hardware, the store, plugins."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from ope_bench.cli import store
from ope_bench.execution import machine
from ope_bench.execution.machine import memory_bytes
from ope_bench.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from bench.cli.conftest import Cli


@pytest.fixture(autouse=True)
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_gpu", lambda: {"available": False, "reason": "not asked"})


def test_doctor_tells_versions_and_hardware(cli: Cli) -> None:
    told = cli("doctor", "--format", "json").json
    for name in ("ope-bench", "numpy", "psutil", "threadpoolctl"):
        assert told["packages"][name] == metadata.version(name)
    hardware = told["hardware"]
    assert hardware["usable_cores"] == machine.available_cores()
    assert hardware["cores"] >= hardware["usable_cores"]
    assert hardware["memory_bytes"] == memory_bytes()
    assert set(told["extras"]) == {"xgboost", "flow", "dask", "report", "parquet"}
    assert told["plugins"]["broken"] == []


def test_a_missing_extra_comes_with_its_pip_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "zuko" else find(name)
    )
    told = cli("doctor", "--format", "json").json["extras"]["flow"]
    assert (told["installed"], told["install"]) == (False, 'pip install "ope-bench[flow]"')
    assert 'flow: MISSING, pip install "ope-bench[flow]"' in cli("doctor").out


def test_doctor_tells_the_state_of_the_store(cli: Cli, tmp_path: Path) -> None:
    def store() -> str:
        (line,) = [line for line in cli("doctor").out.splitlines() if line.startswith("store")]
        return line.rpartition(": ")[2]

    path = tmp_path / "ope-bench.sqlite"
    assert store() == "not there yet"
    with Store.open(path, write=True):
        pass
    assert store() == "ready"
    path.write_text("no database")
    assert store() not in ("ready", "not there yet")
