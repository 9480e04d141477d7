from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ope_bench.cli import submissions
from ope_bench.cli.app import invoke
from ope_bench.execution import local
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.gate import verification
from support.paths import TINY_PLUGINS as TINY


@dataclass(frozen=True)
class Said:
    """What one command line answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


Cli = Callable[..., Said]


@pytest.fixture
def tiny() -> Callable[[str], str]:
    """The reference of a plugin in tiny_plugins.py."""
    return lambda selector: f"{TINY}:{selector}"


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Run one command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPE_BENCH_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = invoke(list(arguments))
        caught = capsys.readouterr()
        return Said(code, caught.out, caught.err)

    return run


class _Here(InProcessExecutor):
    """Created as a `LocalExecutor` is, whose limits and arithmetic it does not have."""

    def __init__(self, jobs: int = 1, *, threads: int = 1, **of_workers: object) -> None:
        super().__init__(threads=threads)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run trials in this process: for commands of which no worker is what the test is about.

    A worker takes longer to start than all the rest of such a command.
    """
    for module in (local, submissions, verification):
        monkeypatch.setattr(module, "LocalExecutor", _Here)


@pytest.fixture
def run(cli: Cli, tiny: Callable[[str], str]) -> Callable[..., Any]:
    """``run`` of estimators of tiny_plugins.py on its coins, in this process."""

    def go(*estimators: str, more: tuple[str, ...] = (), environment: str = "Coins") -> Any:
        chosen = [word for one in estimators for word in ("--est", tiny(one))]
        place = ["--executor", "inprocess", "--format", "json"]
        return cli("run", "--env", tiny(environment), *chosen, "--replicates", "3", *place, *more)

    return go
