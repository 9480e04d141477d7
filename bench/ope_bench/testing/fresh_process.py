"""Compute a plugin's numbers in a new process."""

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
    from ope_bench.plugins.registry import registry
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
    """Return ``function(*arguments)``, computed in a new interpreter with the same path.

    Parameters
    ----------
    cls : the plugin's class, which the new process must be able to import.
    function : a function of an importable module; returns one line.

    Raises
    ------
    NotApplicable : the new process cannot import the class.
    CheckFailed : the new process fails.
    """
    importable(cls)
    output = (sys.path, _files(cls), cls.__module__, (function, arguments))
    try:
        completed = subprocess.run(  # noqa: S603  our own interpreter and code
            [sys.executable, "-c", _CHILD],
            input=b"".join(pickle.dumps(part) for part in output),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env=dict(os.environ),
        )
    except subprocess.TimeoutExpired as exc:
        msg = f"in a new process it did not finish within {SECONDS} s"
        raise CheckFailed(msg) from exc
    out = completed.stdout.decode(errors="replace")
    _, found, line = out.rpartition("answer ")
    if completed.returncode or not found:
        last = completed.stderr.decode(errors="replace").strip().splitlines()[-1:]
        msg = f"in a new process it fails (exit {completed.returncode}): {''.join(last)}"
        raise CheckFailed(msg)
    word, _, module = line.partition(" ")
    if word == "unknown":
        msg = f"{cls.__qualname__} is defined in {module}, which a new process cannot import"
        raise NotApplicable(msg)
    return module


def _files(cls: type) -> list[tuple[str, str]]:
    """Return kind and reference of classes that the new process must load from a file."""
    if not cls.__module__.startswith("ope_bench_file_"):
        return []
    from ope_bench.contracts.environment import Environment

    kind = "environment" if issubclass(cls, Environment) else "estimator"
    path = Path(str(sys.modules[cls.__module__].__file__)).resolve()
    return [(kind, f"{path}:{cls.__name__}")]
