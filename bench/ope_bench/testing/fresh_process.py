"""Does a plugin give the same numbers in a process that has just started?"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ope_bench.testing.checks import CheckFailed, NotApplicable
from ope_bench.testing.constructors import importable

__all__ = ["in_fresh_process"]

SECONDS = 300

_CHILD = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
files = pickle.load(sys.stdin.buffer)
if files:
    from ope_bench.registry import registry
    for kind, reference in files:
        registry().find(kind, reference).cls
module = pickle.load(sys.stdin.buffer)
try:
    function, arguments = pickle.load(sys.stdin.buffer)
except ModuleNotFoundError as exc:
    if not exc.name or not (module + ".").startswith(exc.name + "."):
        raise
    sys.stdout.write("answer unknown " + module)
else:
    sys.stdout.write("answer known " + function(*arguments))
"""


def in_fresh_process(cls: type, function: Callable[..., str], *arguments: Any) -> str:
    """``function(*arguments)`` in a new interpreter with the same path.

    Parameters
    ----------
    cls : the plugin's class, which the new process must be able to import.
    function : a function of an importable module; returns one line.

    Raises
    ------
    NotApplicable : only this process knows the class.
    CheckFailed : the process fails.
    """
    importable(cls)
    told = (sys.path, _files(cls), cls.__module__, (function, arguments))
    try:
        done = subprocess.run(  # noqa: S603  our own interpreter and code
            [sys.executable, "-c", _CHILD],
            input=b"".join(pickle.dumps(part) for part in told),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env=dict(os.environ),
        )
    except subprocess.TimeoutExpired as exc:
        msg = f"in a fresh process it did not finish within {SECONDS} s"
        raise CheckFailed(msg) from exc
    out = done.stdout.decode(errors="replace")
    _, found, line = out.rpartition("answer ")
    if done.returncode or not found:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        msg = f"in a fresh process it fails (exit {done.returncode}): {''.join(last)}"
        raise CheckFailed(msg)
    word, _, told_back = line.partition(" ")
    if word == "unknown":
        msg = f"{cls.__qualname__} is defined in {told_back}, which a new process cannot import"
        raise NotApplicable(msg)
    return told_back


def _files(cls: type) -> list[tuple[str, str]]:
    """How the new process finds a class that lives in a file: kind and reference."""
    if not cls.__module__.startswith("ope_bench_file_"):
        return []
    from ope_bench.environment import Environment

    kind = "environment" if issubclass(cls, Environment) else "estimator"
    path = Path(str(sys.modules[cls.__module__].__file__)).resolve()
    return [(kind, f"{path}:{cls.__name__}")]
