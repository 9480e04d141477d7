"""From `ope-bench new` to a row on the leaderboard, in an environment of its own."""

import json
import os
import shlex
import site
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MOST_COMMANDS = 5
MOST_SECONDS = 120


class Shell:
    """Runs command lines in a folder, in a virtual environment on top of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[str] = []
        root = folder / "venv"
        venv.create(root, with_pip=False)
        self.python = root / "bin" / "python"
        [packages] = (root / "lib").glob("python*/site-packages")
        ours = site.getsitepackages()
        # addsitedir, unlike a plain path, follows the .pth files of editable installs.
        lines = "; ".join(f"site.addsitedir({path!r})" for path in ours)
        (packages / "ours.pth").write_text(f"import site; {lines}\n")
        self.variables = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "OPE_BENCH"))},
            "VIRTUAL_ENV": str(root),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def __call__(self, command: str, *, expect: int = 0) -> str:
        self.commands.append(command)
        words = shlex.split(command)
        start = {
            "ope-bench": [self.python, "-c", "from ope_bench.cli import main; main()"],
            # This interpreter's pip, told where to install: no copy to unpack, no network.
            "pip": [sys.executable, "-m", "pip", "--python", self.python],
            "pytest": [self.python, "-m", "pytest", "-p", "no:cacheprovider"],
        }[words[0]]
        done = subprocess.run(
            [*map(str, start), *words[1:]],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expect, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    return Shell(tmp_path_factory.mktemp("plugin"))


OFFLINE = "--no-deps --no-build-isolation --quiet"


def test_at_most_five_commands_and_two_minutes_to_a_row_on_the_leaderboard(shell):
    start = time.perf_counter()
    shell("ope-bench new estimator my-ipw")
    shell(f"pip install {OFFLINE} -e ./my-ipw")
    shell("ope-bench check my-ipw")
    shell("ope-bench run my-ipw --format json")
    board = json.loads(shell("ope-bench leaderboard --suite my-ipw --format json"))
    seconds = time.perf_counter() - start
    assert len(shell.commands) <= MOST_COMMANDS
    assert seconds < MOST_SECONDS
    rows = board["boards"][0]["rows"]
    assert {"my-ipw", "ipw", "logging-average"} <= {row["estimator"] for row in rows}
    assert "MyIPW, clipped at 10" in {row["label"] for row in rows}
    [mine] = [r for r in rows if r["estimator"] == "my-ipw" and r["params"] == {"clip": 100.0}]
    assert mine["finite"] == mine["replicates"] == 20
    assert mine["origin"] == "my-ipw 0.1.0"


def test_editing_the_plugin_reruns_its_trials_and_nothing_else(shell):
    again = json.loads(shell("ope-bench run my-ipw --format json"))
    assert (again["executed"], again["reused"]) == (0, again["planned"])
    module = shell.folder / "my-ipw" / "src" / "my_ipw" / "estimator.py"
    module.write_text(module.read_text() + "\n# A thought.\n")
    edited = json.loads(shell("ope-bench run my-ipw --format json"))
    # Two of the four rows are its own.
    assert edited["executed"] == edited["planned"] // 2
    assert edited["reused"] == edited["planned"] // 2


def test_script_file_and_package_give_the_same_numbers(shell):
    """The same class by evaluate, by --est ./my.py:MyIPW and installed."""
    module = shell.folder / "my-ipw" / "src" / "my_ipw" / "estimator.py"
    (shell.folder / "my.py").write_text(module.read_text())
    script = (
        "from ope_bench import evaluate; import my; "
        "print([r.estimate for r in evaluate(my.MyIPW(), 'saito-toy', replicates=2)])"
    )
    printed = subprocess.run(
        [shell.python, "-c", script],
        cwd=shell.folder,
        env=shell.variables,
        capture_output=True,
        text=True,
        check=True,
    )
    from_script = json.loads(printed.stdout)
    for spec in ("./my.py:MyIPW", "my-ipw"):
        store = f"--store {spec.replace('/', '_').replace(':', '_')}.sqlite"
        shell(f"ope-bench run --env saito-toy --est {spec} --replicates 2 {store}")
        shell(f"ope-bench export --to rows.jsonl {store}")
        exported = (shell.folder / "rows.jsonl").read_text()
        (shell.folder / "rows.jsonl").unlink()
        rows = sorted(map(json.loads, exported.splitlines()), key=lambda row: row["replicate"])
        assert [row["estimate"] for row in rows] == from_script


@pytest.mark.parametrize("kind", ["estimator", "environment"])
def test_the_tests_of_a_new_package_pass(shell, kind):
    name = f"fresh-{kind}"
    shell(f"ope-bench new {kind} {name}")
    shell(f"pip install {OFFLINE} -e ./{name}")
    told = shell(f"pytest -q {name} -c {name}/pyproject.toml")
    assert " passed" in told


def test_new_packages_are_lint_free_and_typed(shell):
    sources = [f"fresh-{kind}/src/fresh_{kind}" for kind in ("estimator", "environment")]
    for tool in (["ruff", "check", "--isolated"], ["mypy", "--strict", "--no-incremental"]):
        done = subprocess.run(
            [sys.executable, "-m", *tool, *sources],
            cwd=shell.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
