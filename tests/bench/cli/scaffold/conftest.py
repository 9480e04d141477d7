"""A shell in which packages can be installed without touching this environment."""

import json
import os
import shlex
import site
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = """
import gc, json, os, runpy, site, sys
import pydantic.fields, pytest, sklearn.linear_model, sklearn.model_selection
import typer._adapters
import ope_bench.boards.leaderboard, ope_bench.report.boards
import ope_bench.cli.app, ope_bench.cli.boards, ope_bench.cli.check, ope_bench.cli.run
import ope_bench.cli.scaffold, ope_bench.execution.runner, ope_bench.suites.suite
import ope_bench.testing.environment_checks, ope_bench.testing.estimator_checks
from ope_bench.cli import main

def run(program, arguments):
    for name, place in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), place)
    # Of packages that were installed since this process began.
    site.addsitedir(sys.argv[2])
    os.chdir(sys.argv[1])
    sys.argv[:] = [program, *arguments]
    if program == "pytest":
        sys.exit(pytest.main(["-p", "no:cacheprovider", *arguments]))
    elif program == "python":
        sys.argv[:] = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        main()

gc.freeze()
for line in sys.stdin:
    process = os.fork()
    if not process:
        run(*json.loads(line))
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""
"""Each command runs in a fork of a new process, in which libraries are imported and nothing ran.

To import them takes longer than most commands.
"""


class Shell:
    """Runs command lines in a folder, in a virtual environment on top of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        root = folder / "venv"
        venv.create(root, with_pip=False)
        self.python = root / "bin" / "python"
        [packages] = (root / "lib").glob("python*/site-packages")
        ours = site.getsitepackages()
        # addsitedir, unlike a plain path, follows the .pth files of editable installs.
        lines = "; ".join(f"site.addsitedir({path!r})" for path in ours)
        (packages / "ours.pth").write_text(f"import site; {lines}\n")
        variables = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "OPE_BENCH"))},
            "VIRTUAL_ENV": str(root),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        self._output = folder
        self._server = subprocess.Popen(
            [self.python, "-c", SERVER, self.folder, packages],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, command: str, *, expect: int = 0) -> str:
        """What the command prints."""
        program, *arguments = shlex.split(command)
        if program == "pip":
            code, out, err = self._pip(arguments)
        else:
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps([program, arguments]) + "\n")
            self._server.stdin.flush()
            code = int(self._server.stdout.readline())
            out, err = ((self._output / name).read_text() for name in ("stdout", "stderr"))
        assert code == expect, f"{command}\n{out}\n{err}"
        return out

    def _pip(self, arguments: list[str]) -> tuple[int, str, str]:
        """Call this interpreter's pip, told where to install: no copy to unpack, no network."""
        verb, *more = arguments
        quick = ["--no-deps", "--no-build-isolation", "--quiet"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.python, verb, *quick, *more],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def close(self) -> None:
        """End the process that runs commands."""
        self._server.communicate()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    made = Shell(tmp_path_factory.mktemp("plugin"))
    yield made
    made.close()
