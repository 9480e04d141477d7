from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ope_bench.base.exit_codes import CLEAN, INTERRUPTED, OUR_BUG, USAGE
from ope_bench.cli import app

if TYPE_CHECKING:
    from bench.cli.conftest import Cli


LIST = ("list", "suites")
"""The list that imports least; `list` alone is read where imports are counted."""


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_the_version_is_told_before_anything_is_imported() -> None:
    code = (
        "import sys; sys.argv = ['ope-bench', '--version']\n"
        "from ope_bench.cli import main; main()\n"
        "heavy = {'typer', 'numpy', 'rich', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = _python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ope-bench 0.")


def test_it_runs_as_a_module_as_well() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ope_bench", "rnu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "did you mean 'run'?" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [("ope-bench lea", "leaderboard"), ("ope-bench run --time", "--timeout")],
)
def test_the_shell_completes_verbs_and_options(words: str, expected: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['ope-bench']\nfrom ope_bench.cli import main; main()",
        ],
        env=dict(
            os.environ,
            _OPE_BENCH_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(len(words.split()) - 1),
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected in done.stdout.split(), done.stderr


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from ope_bench.cli import main\n"
        "sys.argv = ['ope-bench', 'list']; main()\n"
        "heavy = {'sklearn', 'torch', 'xgboost', 'pandas', 'distributed', 'scipy', 'pydantic'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = _python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["rnu"], "did you mean 'run'?"),
        (["run", "--nonsense"], "--nonsense"),
        (["run", "quik"], "did you mean 'quick'?"),
        (["run", "--jobs", "0"], "--jobs"),
        (["run", "--replicates", "many"], "--replicates"),
        (["run", "--timeout", "soon"], "'--timeout': 'soon'"),
        (["run", "--memory", "-1"], "'--memory': '-1'"),
        (["run", "--device", "tpu"], "--device"),
        (["run", "--env", "gaussian"], "--est"),
        (["run", "--est", "ipw"], "--env"),
        (["run", "--env", "gaussian[", "--est", "ipw"], "'gaussian['"),
        (["run", "--env", "gausian", "--est", "ipw"], "did you mean 'gaussian'"),
        (["run", "--env", "gaussian[n_samples=0]", "--est", "ipw"], "'n_samples' = 0"),
        (["run", "--env", "gaussian[n_samples=-5]", "--est", "ipw"], "'n_samples' = -5"),
        (["run", "--env", "gaussian[n_samples=[]]", "--est", "ipw"], "'n_samples'"),
        (["run", "--seed", str(2**63)], "--seed"),
        (["run", "--env", "gaussian", "--est", "./my.py"], "./my.py:CLASS"),
        (["run", "--address", "tcp://x", "--dry-run"], "--executor dask"),
        (
            ["run", "--executor", "dask", "--address", "pigeon://x"],
            "--address: no Dask scheduler answers at pigeon://x",
        ),
        (["show", "ipv"], "did you mean 'ipw'?"),
        (["list", "plugins"], "'plugins'"),
        (["export", "--to", "x.xlsx"], ".parquet, .csv or .jsonl"),
        (["leaderboard"], "ope-bench.sqlite"),
        (["export", "--to", "x.csv"], "ope-bench.sqlite"),
        (["rerun", "abc"], "ope-bench.sqlite"),
        (["store", "info"], "ope-bench.sqlite"),
        (["store", "prune"], "ope-bench.sqlite"),
        (["store", "merge", "other.sqlite"], "other.sqlite"),
    ],
)
def test_a_users_mistake_gets_one_line_and_exit_code_2(
    cli: Cli, arguments: list[str], reason: str
) -> None:
    said = cli(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("ope-bench: ")
    assert reason in said.err


def test_nothing_is_created_by_a_mistake(cli: Cli, tmp_path: Path) -> None:
    for arguments in (["leaderboard"], ["export", "--to", "x.csv"], ["rerun", "a"], ["run", "x"]):
        cli(*arguments)
    assert list(tmp_path.iterdir()) == []


VERBS = (
    *("run", "leaderboard", "list", "show"),
    *("baseline", "check", "compare", "data", "doctor", "export", "gate"),
    *("new", "report", "rerun", "store"),
)


def test_every_verb_is_there() -> None:
    assert set(VERBS) <= set(app.VERBS)


@pytest.mark.parametrize("verb", app.VERBS)
def test_help_is_there_for_every_verb(cli: Cli, verb: str) -> None:
    front = cli("--help")
    assert front.code == 0
    assert re.search(rf"^ +{verb} +\S", front.out, re.MULTILINE), "with its line of help"
    said = cli(verb, "--help")
    assert said.code == 0
    assert f"Usage: ope-bench {verb}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    # A summary that is too long would be cut.
    assert not re.search(r"^ +\S.*\.\.\.$", front.out + said.out, re.MULTILINE)


def test_a_missing_package_of_ours_is_told_in_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    said = cli("run", "--dry-run")
    assert (said.code, said.out) == (2, "")
    assert said.err == "ope-bench: the package 'psutil' is missing: pip install psutil\n"


def test_a_bug_of_ours_is_a_traceback_and_no_regression(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ope_bench.cli import catalog

    def broken(sort: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(catalog, "rows_of", broken)
    said = cli("list")
    assert said.code == 70
    assert "Traceback" in said.err


LONG = "x" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", LONG],
        ["gate", LONG],
        ["log", "check", LONG],
        *(["leaderboard", "--store", path] for path in (LONG, f"{LONG}/store.sqlite")),
        ["store", "merge", LONG],
    ],
)
def test_a_path_that_the_system_refuses_is_a_users_mistake(cli: Cli, arguments: list[str]) -> None:
    said = cli(*arguments)
    assert (said.code, said.out) == (USAGE, "")
    assert re.fullmatch(r"ope-bench: .*x.*: File name too long\n", said.err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--store", "loop"], "store loop: it cannot be opened"),
        (["run", "--store", "/"], "store / is a folder"),
        (["check", "./loop/x.py:A"], "loop/x.py:A) cannot be loaded: FileNotFoundError"),
    ],
)
def test_links_in_a_circle_and_roots_are_users_mistakes(
    cli: Cli, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    said = cli(*arguments)
    assert said.code == USAGE
    assert words in said.err


@pytest.mark.parametrize("columns", ["-5", "0", "1", "wide"])
def test_any_width_of_the_terminal_is_accepted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert cli("show", "ipw").code == CLEAN


@pytest.mark.parametrize(
    ("number", "path", "code", "words"),
    [
        (errno.EACCES, "locked/file", USAGE, "ope-bench: locked/file: Permission denied\n"),
        (errno.ENOSPC, None, USAGE, "ope-bench: No space left on device\n"),
        (errno.EBADF, None, OUR_BUG, "Traceback"),
        (errno.ECHILD, None, OUR_BUG, "Traceback"),
    ],
)
def test_errors_of_the_system_are_mistakes_or_bugs_by_their_number(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, number: int, path: str | None, code: int, words: str
) -> None:
    from ope_bench.cli import catalog

    def refused(kind: object) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(catalog, "rows_of", refused)
    said = cli("list")
    assert said.code == code
    assert words in said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [[*LIST], ["--version"], ["--help"], ["show", "ipw"]])
def test_a_full_disk_is_told_in_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = _command(*arguments, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (USAGE, b"ope-bench: No space left on device\n")


def _command(
    *arguments: str, before: str = "", **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    code = f"{before}\nfrom ope_bench.cli import main\nmain()"
    return subprocess.run([sys.executable, "-c", code, *arguments], check=False, **streams)


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The descriptor of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "ipw"],
        [*LIST],
        [*LIST, "--format", "json"],
        ["--version"],
        ["--help"],
        ["show", "--help"],
    ],
)
def test_a_reader_that_goes_away_does_not_change_the_exit_code(
    arguments: list[str], closed_pipe: int
) -> None:
    done = _command(*arguments, stdout=closed_pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (CLEAN, b"")


ASCII = {**os.environ, "PYTHONIOENCODING": "ascii"}


def test_characters_that_the_encoding_lacks_are_printed_as_escapes() -> None:
    done = _command("show", "epws", capture_output=True, env=ASCII)
    assert (done.returncode, done.stderr) == (CLEAN, b"")
    assert b"\\u" in done.stdout


def test_a_document_in_ascii_is_json_with_the_same_characters() -> None:
    rows = ["caf\xe9", "\U0001f600"]
    before = f"from ope_bench.cli import catalog\ncatalog.rows_of = lambda kind: {rows!a}"
    listed = ["list", "suites", "--format", "json"]
    done = _command(*listed, before=before, capture_output=True, env=ASCII)
    assert (done.returncode, done.stderr) == (CLEAN, b"")
    assert json.loads(done.stdout)["suites"] == rows


def test_without_stdout_a_command_ends_as_with_it() -> None:
    closing = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "ope_bench"]
    for arguments in (["--version"], [*LIST, "--format", "json"], ["show", "ipw"]):
        done = subprocess.run([*closing, *arguments], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (CLEAN, b"")


def test_lines_are_not_held_back_where_python_is_unbuffered() -> None:
    code = (
        "import os\n"
        "from ope_bench.base.printable import replace_standard_streams\n"
        "replace_standard_streams()\n"
        "print('line')\n"
        "os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-u", "-c", code], capture_output=True, check=True)
    assert done.stdout == b"line\n"


def test_an_error_that_nobody_reads_keeps_its_exit_code(closed_pipe: int, tmp_path: Path) -> None:
    done = _command("leaderboard", stdout=closed_pipe, stderr=closed_pipe, cwd=tmp_path)
    assert done.returncode == USAGE


def test_ctrl_c_while_listing_is_an_interruption_without_a_traceback() -> None:
    pressed = """
from ope_bench.cli import catalog
def rows_of(kind):
    raise KeyboardInterrupt
catalog.rows_of = rows_of
"""
    done = _command("list", before=pressed, capture_output=True)
    assert (done.returncode, done.stderr) == (INTERRUPTED, b"")


def test_ctrl_c_during_the_imports_is_an_interruption_without_a_traceback() -> None:
    code = """
import sys

class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "ope_bench.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Pressed())
from ope_bench.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "doctor"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (INTERRUPTED, b"")
