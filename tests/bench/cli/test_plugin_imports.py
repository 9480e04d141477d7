"""Plugins that raise while they are imported, and suites whose plugins may not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


def ope_bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = "from ope_bench.cli import main; main()"
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("code", ENDINGS)
def test_a_plugin_that_ends_the_process_costs_one_line(code: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(code + "\n")
    selected = ("--est", "./bad.py:Bad", "--store", "s.sqlite")
    done = ope_bench(tmp_path, "run", "--env", "saito-toy", *selected)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert ENDINGS[code] in line


def test_no_code_refuses_suites_baselines_and_selectors_that_name_files(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(CODE)
    (tmp_path / "s.yaml").write_text(SUITE)
    commands = {
        "show": ("show", "s.yaml"),
        "show class": ("show", "./evil.py:Evil"),
        "dry": ("run", "s.yaml", "--dry-run"),
        "run": ("run", "s.yaml", "--jobs", "1"),
        "selector": ("run", "--env", "saito-toy", "--est", "./evil.py:Evil", "--dry-run"),
    }
    for name, command in commands.items():
        refused = ope_bench(tmp_path, *command, "--no-code")
        said = refused.stdout + refused.stderr
        assert "EVIL" not in said, name
        # A suite is shown all the same, with the reason why it cannot be planned.
        assert refused.returncode == (0 if name == "show" else 2), (name, said)
        assert "--no-code refuses" in " ".join(said.split()), (name, said)
        allowed = ope_bench(tmp_path, *command)
        assert allowed.returncode == 0, (name, allowed.stderr)
        assert "EVIL CODE RAN" in allowed.stdout + allowed.stderr, name
    saved = ope_bench(tmp_path, "baseline", "save", "b.json", "--suite", "s.yaml")
    assert saved.returncode == 0, saved.stderr
    gated = ope_bench(tmp_path, "gate", "b.json", "--no-code")
    # Nothing of the suite could be planned, so nothing was compared.
    assert (gated.returncode, "EVIL" in gated.stdout + gated.stderr) == (4, False)
    assert ope_bench(tmp_path, "show", "ipw", "--no-code").returncode == 0
