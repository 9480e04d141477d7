"""The kernels by which numerical libraries compute: which they are, and how workers fix them.

OpenBLAS, NumPy, torch and MKL choose their code by the processor, and each choice rounds
differently. They read variables of the environment when they are loaded, so that only a new
process can be told what to choose.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import platform
import subprocess
import sys
from functools import cache
from importlib.machinery import PathFinder
from typing import Any

from ope_bench.execution import Arithmetic
from ope_bench.execution.keeper import import_path, python_command
from ope_bench.plugins.requirements import installed_version

_AVX2_FLAGS = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"})
"""Linux's names for the instructions of NumPy's level X86_V3 and of OpenBLAS's Haswell kernels."""

_NUMPY_FEATURES = frozenset(
    {"SSSE3", "SSE41", "POPCNT", "SSE42", "X86_V2", "AVX", "F16C", "FMA3", "AVX2", "X86_V3"}
)
"""Names of NumPy's levels up to AVX2, before release 2.4 and since."""

PATIENCE = 60.0


def arithmetic_variables(arithmetic: Arithmetic) -> dict[str, str]:
    """Return the environment variables of workers; none where nothing can be fixed."""
    if arithmetic == "native" or not _cpu_flags() >= _AVX2_FLAGS:
        return {}
    simd = _numpy_simd()
    features = [name for name in simd["found"] + simd["not found"] if name in _NUMPY_FEATURES]
    return {
        "OPENBLAS_CORETYPE": "Haswell",
        # NumPy refuses to start with both. To name what is enabled leaves out what later
        # releases know, and gives no warning of features that this processor lacks.
        "NPY_ENABLE_CPU_FEATURES": " ".join(features),
        "NPY_DISABLE_CPU_FEATURES": "",
        "ATEN_CPU_CAPABILITY": "avx2",
        # The only mode that Intel promises on processors of others, too.
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    }


def arithmetic_facts() -> dict[str, Any]:
    """Return the kernels by which this process computes; *portable* if they are the fixed ones."""
    from threadpoolctl import threadpool_info

    # SciPy's own BLAS, by one extension: to import scipy.linalg takes ten times as long.
    scipy = importlib.util.find_spec("scipy")
    folders = scipy.submodule_search_locations if scipy else None
    extension = PathFinder.find_spec("_fblas", [f"{path}/linalg" for path in folders or ()])
    with contextlib.suppress(OSError):
        ctypes.CDLL(extension.origin if extension else "")
    fixed = arithmetic_variables("portable")
    is_fixed = fixed and all(os.environ.get(name, "") == value for name, value in fixed.items())
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "mode": "portable" if is_fixed else "native",
        "blas_kernels": sorted({pool.get("architecture") or pool["prefix"] for pool in pools}),
        "numpy_simd": _numpy_simd()["found"],
        "torch_capability": _torch_capability(),
        "libc": " ".join(platform.libc_ver()),
    }


@cache
def worker_arithmetic(arithmetic: Arithmetic) -> dict[str, Any]:
    """Return the facts of a new process with a worker's variables; empty if it cannot start."""
    try:
        done = run_as_worker(__name__, arithmetic, PATIENCE)
        done.check_returncode()
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}
    return facts


def run_as_worker(
    module: str, arithmetic: Arithmetic, patience: float, asked: str = ""
) -> subprocess.CompletedProcess[str]:
    """Call a module's ``main`` in a new process with a worker's variables, and wait for its end.

    Parameters
    ----------
    module : its name.
    arithmetic : kernels of the process.
    patience : seconds.
    asked : standard input.
    """
    return subprocess.run(  # noqa: S603
        python_command(module),
        input=asked,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
        env={**os.environ, **arithmetic_variables(arithmetic), **import_path()},
    )


def main() -> None:
    """Print the facts of this process as the last line of standard output."""
    sys.stdout.write("\n" + json.dumps(arithmetic_facts()) + "\n")


def _numpy_simd() -> dict[str, list[str]]:
    """Return the levels for which NumPy has code: ``found`` ones are in use."""
    import numpy as np

    build: Any = np.show_config(mode="dicts")
    simd = build.get("SIMD Extensions", {})
    return {name: list(simd.get(name, ())) for name in ("found", "not found")}


def _torch_capability() -> str | None:
    """Return the level that torch chooses, by its own rule: its import takes seconds."""
    if not installed_version("torch") or not _cpu_flags():
        return None
    asked = os.environ.get("ATEN_CPU_CAPABILITY", "").upper()
    if asked in ("AVX512", "AVX2", "DEFAULT"):
        return asked
    if _cpu_flags() >= {"avx512vl", "avx512bw", "avx512dq", "fma"}:
        return "AVX512"
    return "AVX2" if _cpu_flags() >= {"avx2", "fma"} else "DEFAULT"


@cache
def _cpu_flags() -> frozenset[str]:
    """Return the names of an x86 processor's instructions as Linux has them; elsewhere none."""
    return frozenset(cpu_fact("flags").split())


def cpu_fact(name: str) -> str:
    """Return what Linux tells of the first processor under a name; elsewhere nothing."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = (line.partition(":")[2] for line in file if line.startswith(name))
            return next(lines, "").strip()
    except OSError:
        return ""
