"""The pages that show how to write a plugin, line by line, and what the packages are good for."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from support.paths import ROOT

pytestmark = pytest.mark.slow

MOST_COMMANDS = 5
FEWER = " --replicates 3 --jobs 1"
HERE = " --replicates 3 --executor inprocess"
"""How `run` is shortened: with one worker, or without any where no installed plugin needs one."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = {
    "write-an-estimator": (8, ("MyIPW", "my-ipw")),
    "write-an-environment": (7, ("my-bandit",)),
}


def blocks(page):
    return BLOCK.findall((ROOT / "bench" / "docs" / f"{page}.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def printed(shell):
    """What the commands of both pages print; their packages are installed from then on.

    A Python block that begins with `# NAME.py` is that file; lines of an sh block are run. Runs
    have fewer data sets than on the page: 100 of them take half a minute. Workers run what was
    installed; a file runs in one below, and here in the command's own process.
    """
    found = {}
    for page in PAGES:
        found[page] = []
        for language, body in blocks(page):
            if language == "python":
                name = re.match(r"# (\w+\.py)\n", body)
                assert name, f"a block without a file name: {body[:60]}"
                (shell.folder / name[1]).write_text(body, encoding="utf-8")
            elif language == "sh":
                for line in body.strip().splitlines():
                    command = line.partition("  #")[0]
                    if command.startswith("ope-bench run"):
                        command += HERE if "--env" in command else FEWER
                    found[page].append(shell(command))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works(page, printed):
    fewest, names = PAGES[page]
    assert len(printed[page]) >= fewest
    # The last command is about the plugin.
    assert any(name in printed[page][-1] for name in names)


def test_at_most_five_commands_to_a_row_on_the_leaderboard(shell):
    (commands,) = [
        body.strip().splitlines()
        for language, body in blocks("write-an-estimator")
        if language == "sh" and "ope-bench new" in body
    ]
    assert len(commands) <= MOST_COMMANDS
    board = json.loads(shell("ope-bench leaderboard --suite my-ipw --format json"))
    rows = board["boards"][0]["rows"]
    assert {"my-ipw", "ipw", "logging-average"} <= {row["estimator"] for row in rows}
    assert "MyIPW, clipped at 10" in {row["label"] for row in rows}
    [mine] = [r for r in rows if r["estimator"] == "my-ipw" and r["params"] == {"clip": 100.0}]
    assert mine["finite"] == mine["replicates"] == 3
    assert mine["origin"] == "my-ipw 0.1.0"


@pytest.mark.parametrize("name", ["my-ipw", "my-bandit"])
def test_the_tests_of_a_new_package_pass(shell, name):
    # The check in a new process is one of `ope-bench check` above.
    told = shell(f"pytest -q {name} -c {name}/pyproject.toml -k 'not fresh_process'")
    assert " passed" in told


def test_new_packages_are_lint_free_and_typed(shell):
    # They use neither; to read torch and SciPy's stubs takes mypy three times as long.
    config = shell.folder / "mypy.ini"
    config.write_text(
        "[mypy]\n[mypy-torch.*,scipy.*]\nfollow_imports = skip\nfollow_imports_for_stubs = true\n"
    )
    mypy = ["mypy", "--config-file", str(config), "--strict", "--no-incremental"]
    sources = [f"{name}/src/{name.replace('-', '_')}" for name in ("my-ipw", "my-bandit")]
    for tool in (["ruff", "check", "--isolated"], mypy):
        done = subprocess.run(
            [sys.executable, "-m", *tool, *sources],
            cwd=shell.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_editing_the_plugin_reruns_its_trials_and_nothing_else(shell):
    run = f"ope-bench run my-ipw --format json{FEWER}"
    again = json.loads(shell(run))
    assert (again["executed"], again["reused"]) == (0, again["planned"])
    module = shell.folder / "my-ipw" / "src" / "my_ipw" / "estimator.py"
    module.write_text(module.read_text() + "\n# A thought.\n")
    edited = json.loads(shell(run.replace(FEWER, HERE)))
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
    (shell.folder / "script.py").write_text(script)
    from_script = json.loads(shell("python script.py"))
    for spec in ("./my.py:MyIPW", "my-ipw"):
        store = f"--store {spec.replace('/', '_').replace(':', '_')}.sqlite"
        shell(f"ope-bench run --env saito-toy --est {spec} --replicates 2 --jobs 1 {store}")
        shell(f"ope-bench export --to rows.jsonl {store}")
        exported = (shell.folder / "rows.jsonl").read_text()
        (shell.folder / "rows.jsonl").unlink()
        rows = sorted(map(json.loads, exported.splitlines()), key=lambda row: row["replicate"])
        assert [row["estimate"] for row in rows] == from_script
