"""A shell in which packages can be installed without touching this environment."""

import os
import shlex
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest


class Shell:
    """Runs command lines in a folder, in a virtual environment on top of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
        """What the command prints."""
        words = shlex.split(command)
        if words[:2] == ["pip", "install"]:
            words[2:2] = ["--no-deps", "--no-build-isolation", "--quiet"]
        programs: dict[str, list[str | Path]] = {
            "python": [self.python],
            "ope-bench": [self.python, "-c", "from ope_bench.cli import main; main()"],
            # This interpreter's pip, told where to install: no copy to unpack, no network.
            "pip": [sys.executable, "-m", "pip", "--python", self.python],
            "pytest": [self.python, "-m", "pytest", "-p", "no:cacheprovider"],
        }
        done = subprocess.run(
            [*map(str, programs[words[0]]), *words[1:]],
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
