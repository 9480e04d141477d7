"""Every module can be imported where there are no modules of Unix."""

from __future__ import annotations

import subprocess
import sys

IMPORT_ALL = """
import importlib, pkgutil, sys
import psutil, ope_bench  # psutil itself takes what its system has

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in UNIX:
            raise ModuleNotFoundError(f"no module {name} here", name=name)

UNIX = {"fcntl", "resource", "pwd", "grp", "termios", "pty"}
for name in UNIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
names = [module.name for module in pkgutil.walk_packages(ope_bench.__path__, "ope_bench.")]
names = [name for name in names if ".templates" not in name]
assert "ope_bench.execution.worker_process" in names
for name in names:
    importlib.import_module(name)
"""


def test_no_module_needs_unix_to_be_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_ALL],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
