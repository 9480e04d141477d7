"""From `ope-bench new` to a row on the leaderboard, in an environment of its own."""

import json
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

MOST_COMMANDS = 5
MOST_SECONDS = 120


def test_at_most_five_commands_and_two_minutes_to_a_row_on_the_leaderboard(shell):
    start = time.perf_counter()
    shell("ope-bench new estimator my-ipw")
    shell("pip install -e ./my-ipw")
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
    shell(f"pip install -e ./{name}")
    told = shell(f"pytest -q {name} -c {name}/pyproject.toml")
    assert " passed" in told


def test_new_packages_are_lint_free_and_typed(shell):
    # They use neither; to read torch and SciPy's stubs takes mypy three times as long.
    config = shell.folder / "mypy.ini"
    config.write_text(
        "[mypy]\n[mypy-torch.*,scipy.*]\nfollow_imports = skip\nfollow_imports_for_stubs = true\n"
    )
    mypy = ["mypy", "--config-file", str(config), "--strict", "--no-incremental"]
    sources = [f"fresh-{kind}/src/fresh_{kind}" for kind in ("estimator", "environment")]
    for tool in (["ruff", "check", "--isolated"], mypy):
        done = subprocess.run(
            [sys.executable, "-m", *tool, *sources],
            cwd=shell.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
