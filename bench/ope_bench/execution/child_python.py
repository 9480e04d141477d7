"""Start Python processes with the import path of this one."""

from __future__ import annotations

import os
import sys

__all__ = ["import_path", "python_command"]

_VARIABLE = "OPE_BENCH_PATH"


def python_command(module: str) -> list[str]:
    """Return the command that calls a module's ``main``; `import_path` is for its environment."""
    code = (
        f"import os, sys; sys.path[:] = os.environ['{_VARIABLE}'].split(os.pathsep); "
        f"from {module} import main; main()"
    )
    return [sys.executable, "-c", code]


def import_path() -> dict[str, str]:
    """Return the environment variable that passes the import path on."""
    return {_VARIABLE: os.pathsep.join(map(str, sys.path))}
