"""Facts of machine and software on which a run's numbers and times depend, and its kernels.

OpenBLAS, NumPy, torch and MKL choose their code by the processor, and each choice rounds
differently. They read variables of the environment when they are loaded, so that only a new
process can be told what to choose.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ope_bench.base.errors import UsageError
from ope_bench.base.files import read_cache, write_cache
from ope_bench.execution import Arithmetic, kernel_probe
from ope_bench.execution.keeper import import_path, python_command
from ope_bench.plugins.requirements import EXTRAS, LEARNERS, NUMERICAL, installed_version
from ope_bench.trials.isolation import thread_variables

_PACKAGES = (*NUMERICAL, *LEARNERS.values(), "pandas", *EXTRAS["dask"].values(), "threadpoolctl")


def machine_facts(workers: Arithmetic | None = None) -> dict[str, Any]:
    """Return CPU, GPU, BLAS, versions of ope-bench, plugins and packages, and git revision.

    Parameters
    ----------
    workers : arithmetic of the worker processes that run trials; None if this process runs them.
    """
    variables = arithmetic_variables(workers) if workers else os.environ
    # A new process runs this module to learn its kernels, and needs no plugins for that.
    from ope_bench.plugins.registry import GROUPS, registry

    origins = {plugin.origin for kind in GROUPS for plugin in registry().plugins(kind)}
    # Not by torch, whose import takes longer than many runs.
    listed = _output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    cards = [line.rpartition(",") for line in (listed or "").splitlines() if "," in line]
    import numpy as np

    build: Any = np.show_config(mode="dicts")
    blas = build.get("Build Dependencies", {}).get("blas")
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": cpu_name(),
        "cores": available_cores(),
        "memory_bytes": memory_bytes(),
        "gpu": [name.strip() for name, _, _ in cards],
        "gpu_driver": cards[0][2].strip() if cards else None,
        "blas": f"{blas['name']} {blas['version']}" if blas else None,
        "arithmetic": worker_arithmetic(workers) if workers else arithmetic_facts(),
        # Beside the arithmetic: bits do not depend on it.
        "blas_block_size": variables.get(BLOCK_SIZE),
        "packages": {name: found for name in _PACKAGES if (found := installed_version(name))},
        "plugins": dict(sorted(origin.rpartition(" ")[::2] for origin in origins)),
        "git": _git(Path(__file__).parent),
    }


def software_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe changes of the software and its kernels between two machines' facts.

    >>> software_changes({"packages": {"numpy": "2.3.0"}}, {"packages": {"numpy": "2.4.0"}})
    ['numpy 2.3.0 -> 2.4.0']
    """
    changed = []
    for group in ("packages", "plugins"):
        old, new = before.get(group, {}), now.get(group, {})
        changed += [
            f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]
    if before.get("python") != now.get("python"):
        changed.append(f"python {before.get('python')} -> {now.get('python')}")
    # Facts of earlier releases have none.
    if (old := before.get("arithmetic")) and (new := now.get("arithmetic")):
        for name in new:
            if old.get(name) != new.get(name):
                values = (facts.get(name) for facts in (old, new))
                words = (" ".join(one) if isinstance(one, list) else str(one) for one in values)
                changed.append(f"{name.replace('_', ' ')} {' -> '.join(words)}")
    return changed


def mode_of(machine: Mapping[str, Any]) -> Arithmetic:
    """Return the arithmetic by which a run's trials are to be repeated here."""
    native = (machine.get("arithmetic") or {}).get("mode") == "native"
    return "native" if native else choose_arithmetic(None)[0]


def same_arithmetic(*machines: Mapping[str, Any]) -> bool:
    """Return whether equal code gives equal bits on all machines, as far as their facts tell.

    Facts of earlier releases do not tell. Portable arithmetic does not depend on the processor.

    >>> new = {"arithmetic": {"mode": "native", "blas_kernels": ["Haswell"]}, "cpu": "one"}
    >>> same_arithmetic(new, new), same_arithmetic(new, {**new, "cpu": "other"})
    (True, False)
    >>> old = {"cpu": "one"}
    >>> same_arithmetic(old, old)
    False
    """
    kernels = []
    for place in (place for machine in machines for place in machine.get("cluster") or [machine]):
        arithmetic = place.get("arithmetic") or {}
        cpu = None if arithmetic.get("mode") == "portable" else place.get("cpu")
        kernels.append((arithmetic, cpu))
    return all(one == kernels[0] and one[0] for one in kernels) and not any(
        software_changes(machines[0], machine) for machine in machines
    )


def cpu_name() -> str:
    """Return the processor's name, which psutil lacks."""
    if name := cpu_fact("model name"):
        return name
    if sys.platform == "darwin" and (
        brand := _output_of("sysctl", "-n", "machdep.cpu.brand_string")
    ):
        return brand.strip()
    return platform.processor() or platform.machine()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    import psutil

    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):  # not on macOS
        return len(process.cpu_affinity() or ())
    return psutil.cpu_count() or 1


def memory_bytes() -> int:
    """Return the machine's memory in bytes."""
    import psutil

    return psutil.virtual_memory().total


def thread_pools() -> list[dict[str, Any]]:
    """Return the numerical libraries of NumPy and SciPy with their numbers of threads."""
    import numpy as np  # noqa: F401  its BLAS is what is asked about
    import scipy.linalg  # noqa: F401  SciPy carries a BLAS of its own
    from threadpoolctl import threadpool_info

    names = ("internal_api", "version", "num_threads")
    return [{name: found.get(name) for name in names} for found in threadpool_info()]


def _git(folder: Path) -> dict[str, Any] | None:
    """Return the revision of the checkout that contains this package, None without one."""
    # In the checkout of another project, the package's folder is not tracked.
    if _output_of("git", "-C", str(folder), "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    revision = _output_of("git", "-C", str(folder), "rev-parse", "HEAD")
    status = _output_of("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision and revision.strip(), "dirty": bool(status and status.strip())}


def _output_of(command: str, *arguments: str) -> str | None:
    """Return a program's output, None where it is missing or fails."""
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603  fixed commands of our own
            [path, *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


# The kernels by which numerical libraries compute: which they are, and how workers fix them.

_AVX2_FLAGS = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"})
"""Linux's names for the instructions of NumPy's level X86_V3 and of OpenBLAS's Haswell kernels."""

_NUMPY_FEATURES = frozenset(
    {"SSSE3", "SSE41", "POPCNT", "SSE42", "X86_V2", "AVX", "F16C", "FMA3", "AVX2", "X86_V3"}
)
"""Names of NumPy's levels up to AVX2, before release 2.4 and since."""

PATIENCE = 600.0
"""Seconds for what takes one, or a hundred where others compute."""


BLOCK_SIZE = "OPENBLAS_L2_SIZE"
BLOCK_SIZES = ("512", "2048", "256")
"""Block sizes in the order in which they are tried, KiB. Which ones are right depends on machine
and release of OpenBLAS; all right ones give the same bits."""


def arithmetic_variables(arithmetic: Arithmetic) -> dict[str, str]:
    """Return the environment variables of workers; none where nothing can be fixed."""
    if arithmetic == "native" or not (fixed := _fixed_kernels()):
        return {}
    size, _ = right_block_size()
    return fixed if size is None else {**fixed, BLOCK_SIZE: size}


def _fixed_kernels() -> dict[str, str]:
    if not _cpu_flags() >= _AVX2_FLAGS:
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


def choose_arithmetic(asked: Arithmetic | None) -> tuple[Arithmetic, str]:
    """Return the arithmetic of a run's workers, and why it is native where nobody asked for that.

    Raises
    ------
    UsageError : the portable one was asked for, and is wrong on this machine.
    """
    if asked == "native" or not _fixed_kernels() or right_block_size()[0] is not None:
        return asked or "portable", ""
    reason = f"portable arithmetic is wrong on this machine ({right_block_size()[1]})"
    if asked is not None:
        msg = f"--arithmetic portable: {reason}; use --arithmetic native, or another NumPy"
        raise UsageError(msg)
    return "native", f"{reason}: this run's is native"


@cache
def right_block_size() -> tuple[str | None, str]:
    """Return the first block size with which known results are right; else None and the reason.

    A new process for each computes them. A right one is remembered in the user's cache folder, by
    host, processor and versions.

    Raises
    ------
    UsageError : the process cannot start, or the machine has no time for it.
    """
    versions = [installed_version(name) for name in ("numpy", "scipy")]
    here = [platform.node(), cpu_name(), *sorted(_cpu_flags()), *map(str, versions)]
    code = Path(kernel_probe.__file__).read_bytes()
    digest = hashlib.sha256("\0".join(here).encode() + code).hexdigest()
    name = f"block-size-{digest[:16]}"
    known = read_cache(name)
    if known in BLOCK_SIZES:
        return known, ""
    wrong = []
    for size in BLOCK_SIZES:
        environment = {**_fixed_kernels(), **thread_variables(1), BLOCK_SIZE: size}
        try:
            done = run_as_worker(kernel_probe.__name__, environment, PATIENCE)
        except (OSError, subprocess.SubprocessError) as exc:
            # That says nothing of the arithmetic.
            msg = f"cannot check the arithmetic of workers ({type(exc).__name__}); try again"
            raise UsageError(msg) from exc
        told = (done.stdout or done.stderr or "no output").splitlines()[-1]
        if done.returncode == 0 and told == "right":
            return write_cache(name, size), ""
        # A negative number is that of the signal of which the process died.
        died = done.returncode < 0
        wrong.append(f"{size}: {signal.strsignal(-done.returncode) if died else told}")
    return None, f"{BLOCK_SIZE} {', '.join(wrong)}"


def arithmetic_facts() -> dict[str, Any]:
    """Return the kernels by which this process computes; *portable* if they are the fixed ones."""
    from threadpoolctl import threadpool_info

    # SciPy's own BLAS, by one extension: to import scipy.linalg takes ten times as long.
    scipy = importlib.util.find_spec("scipy")
    folders = scipy.submodule_search_locations if scipy else None
    extension = PathFinder.find_spec("_fblas", [f"{path}/linalg" for path in folders or ()])
    with contextlib.suppress(OSError):
        ctypes.CDLL(extension.origin if extension else "")
    fixed = _fixed_kernels()
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
        done = run_as_worker(__name__, arithmetic_variables(arithmetic), PATIENCE)
        done.check_returncode()
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}
    return facts


def run_as_worker(
    module: str, variables: Mapping[str, str], patience: float, asked: str = ""
) -> subprocess.CompletedProcess[str]:
    """Call a module's ``main`` in a new process with such variables, and wait for its end.

    Parameters
    ----------
    module : its name.
    variables : of the environment, beside those of this process.
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
        env={**os.environ, **variables, **import_path()},
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
