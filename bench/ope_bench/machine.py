"""Facts of the machine and the software that a run's numbers and times depend on."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ope_bench.registry import registry

__all__ = ["differences", "machine_facts"]

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "zuko",
    "xgboost",
    "pandas",
    "distributed",
    "threadpoolctl",
)


def machine_facts() -> dict[str, Any]:
    """CPU, GPU, BLAS, versions of ope-bench, plugins and numerical packages, git revision."""
    origins = {plugin.origin for kind in ("environment", "estimator") for plugin in _plugins(kind)}
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_bytes": _memory(),
        **_gpu(),
        "blas": _blas(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "plugins": dict(sorted(origin.rpartition(" ")[::2] for origin in origins)),
        "git": _git(Path(__file__).parent),
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What changed in the software between two machines' facts, in words.

    >>> differences({"packages": {"numpy": "2.3.0"}}, {"packages": {"numpy": "2.4.0"}})
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
    return changed


def _plugins(kind: str) -> list[Any]:
    return list(registry().plugins(kind))  # type: ignore[arg-type]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    with (
        contextlib.suppress(OSError),
        open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file,
    ):
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _blas() -> str | None:
    import numpy as np

    try:
        build: Any = np.show_config(mode="dicts")
        blas = build["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return None


def _gpu() -> dict[str, Any]:
    # Not through torch, whose import takes longer than many a run.
    found = _told("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    cards = [line.rpartition(",") for line in (found or "").splitlines() if "," in line]
    return {
        "gpu": [name.strip() for name, _, _ in cards],
        "gpu_driver": cards[0][2].strip() if cards else None,
    }


def _git(folder: Path) -> dict[str, Any] | None:
    """Revision of the checkout that holds this package, None where it is installed elsewhere."""
    # A package folder inside somebody else's checkout is not tracked there.
    if _told("git", "-C", str(folder), "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    revision = _told("git", "-C", str(folder), "rev-parse", "HEAD")
    status = _told("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision and revision.strip(), "dirty": bool(status and status.strip())}


def _told(command: str, *arguments: str) -> str | None:
    """What a program prints, None where it is missing or fails."""
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
