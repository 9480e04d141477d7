"""Plugins that raise while they are imported, and suites whose plugins may not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bench.cli.conftest import Cli

ENDINGS = {
    "raise SystemExit(0)": "SystemExit",
    "import sys; sys.exit('away')": "SystemExit: away",
    "def f(: pass": "SyntaxError",
}

SUITE = """schema: 1
replicates: 1
environments:
  - saito-toy: {n_samples: 30}
estimators:
  - ./evil.py:Evil
"""

CODE = """
print("EVIL CODE RAN")
from ope_bench import Estimate, Estimator
class Evil(Estimator):
    "Evil."
    def estimate(self, view):
        return Estimate(0.5)
"""


@pytest.mark.parametrize("code", ENDINGS)
def test_a_plugin_that_ends_the_process_costs_one_line(
    code: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(code + "\n")
    selected = ("--est", "./bad.py:Bad", "--store", "s.sqlite")
    done = cli("run", "--env", "saito-toy", *selected)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert ENDINGS[code] in line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Go to a new folder with the suite: a process imports each file once."""

    def go(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "evil.py").write_text(CODE)
        (folder / "s.yaml").write_text(SUITE)
        monkeypatch.chdir(folder)

    return go


COMMANDS = {
    "show": ("show", "s.yaml"),
    "show class": ("show", "./evil.py:Evil"),
    "dry": ("run", "s.yaml", "--dry-run"),
    "run": ("run", "s.yaml", "--jobs", "1"),
    "selector": ("run", "--env", "saito-toy", "--est", "./evil.py:Evil", "--dry-run"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_code_refuses_suites_and_selectors_that_name_files(
    name: str, cli: Cli, place: Callable[[str], None]
) -> None:
    place(name)
    refused = cli(*COMMANDS[name], "--no-code")
    said = refused.out + refused.err
    assert "EVIL" not in said
    # A suite is shown all the same, with the reason why it cannot be planned.
    assert refused.code == (0 if name == "show" else 2), said
    assert "--no-code refuses" in " ".join(said.split()), said
    allowed = cli(*COMMANDS[name])
    assert allowed.code == 0, allowed.err
    assert "EVIL CODE RAN" in allowed.out + allowed.err
    # It refuses, too, what this process has imported since.
    assert cli(*COMMANDS[name], "--no-code").code == refused.code


def test_no_code_refuses_baselines_that_name_files(
    cli: Cli, place: Callable[[str], None], tmp_path: Path
) -> None:
    place("saved")
    assert cli("run", "s.yaml", "--jobs", "1").code == 0
    saved = cli("baseline", "save", "../b.json", "--suite", "s.yaml")
    assert saved.code == 0, saved.err
    # Where nothing has imported the plugin yet.
    place("gated")
    gated = cli("gate", "../b.json", "--no-code")
    # Nothing of the suite could be planned, so nothing was compared.
    assert (gated.code, "EVIL" in gated.out + gated.err) == (4, False)
    assert cli("show", "ipw", "--no-code").code == 0


def test_the_message_of_a_broken_plugin_is_cut(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("raise ValueError('loud ' * 20_000)\n")
    place = f"{tmp_path / 'loud.py'}:Loud"
    said = cli("run", "--env", "saito-toy", "--est", place, "--dry-run")
    assert said.code == 2
    assert "ValueError: loud loud" in " ".join(said.err.split())
    assert len(said.err) < 3_000
