"""``ope-bench doctor``: what this machine has, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from pathlib import Path
from typing import Any

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.cli.output import Format, FormatOption, document, write

__all__ = ["doctor"]

CORE = ("numpy", "scipy", "scikit-learn", "pyyaml", "pydantic", "typer", "rich", "threadpoolctl")
EXTRAS: dict[str, tuple[tuple[str, str], ...]] = {
    "xgboost": (("xgboost", "xgboost"),),
    "flow": (("torch", "torch"), ("zuko", "zuko")),
    "dask": (("distributed", "distributed"),),
    "report": (("altair", "altair"), ("vl_convert", "vl-convert-python")),
    "parquet": (("pyarrow", "pyarrow"),),
}
"""Extra to (module, distribution)."""


def doctor(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Show versions, missing extras, hardware, the store's state and broken plugins."""
    with document(output) as emit:
        facts = {
            "schema": 1,
            "python": {
                "version": platform.python_version(),
                "executable": sys.executable,
                "platform": platform.platform(),
            },
            "packages": {name: _version(name) for name in ("ope-bench", *CORE)},
            "extras": {name: _extra(name) for name in EXTRAS},
            "hardware": _hardware(),
            "store": _store(store),
            "plugins": _plugins(),
        }
        emit(facts)
    if output is Format.TEXT:
        write(_text(facts))
    return 0


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _extra(name: str) -> dict[str, Any]:
    parts = EXTRAS[name]
    missing = [module for module, _ in parts if importlib.util.find_spec(module) is None]
    return {
        "installed": not missing,
        "versions": {distribution: _version(distribution) for _, distribution in parts},
        "install": f'pip install "ope-bench[{name}]"' if missing else None,
    }


def _hardware() -> dict[str, Any]:
    from ope_bench.cli.run import available_cores

    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "usable_cores": available_cores(),
        "memory_bytes": _memory(),
        "blas": _blas(),
        "gpu": _gpu(),
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _blas() -> list[dict[str, Any]]:
    """The numerical libraries that NumPy and SciPy load, and how many threads they would use."""
    import numpy as np  # noqa: F401  its BLAS is what is asked about
    import scipy.linalg  # noqa: F401  SciPy carries a BLAS of its own

    if importlib.util.find_spec("threadpoolctl") is None:
        return []
    from threadpoolctl import threadpool_info

    names = ("internal_api", "version", "num_threads")
    return [{name: found.get(name) for name in names} for found in threadpool_info()]


def _gpu() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        return {"available": False, "reason": "torch is not installed"}
    import torch

    if not torch.cuda.is_available():
        return {"available": False, "reason": f"torch {torch.__version__} sees no CUDA device"}
    return {
        "available": True,
        "name": torch.cuda.get_device_name(0),
        "count": torch.cuda.device_count(),
        "cuda": torch.version.cuda,
    }


def _store(path: Path) -> dict[str, Any]:
    from ope_bench.errors import StoreError
    from ope_bench.store import Store

    facts: dict[str, Any] = {"path": str(path), "exists": path.exists(), "problem": None}
    if path.exists():
        try:
            with Store.open(path) as opened:
                facts |= opened.info()
        except StoreError as exc:
            facts["problem"] = str(exc)
    return facts


def _plugins() -> dict[str, Any]:
    from ope_bench.cli.inventory import Sort, rows_of

    rows = {sort.value: rows_of(sort) for sort in Sort}
    every = [row for group in rows.values() for row in group]
    return {
        **{name: sum(not row["broken"] for row in group) for name, group in rows.items()},
        "broken": [row for row in every if row["broken"]],
        "ambiguous": sorted({row["reference"] for row in every if row["ambiguous"]}),
    }


def _text(facts: dict[str, Any]) -> str:
    from ope_bench.quantities import format_size

    python, hardware, store = facts["python"], facts["hardware"], facts["store"]
    lines = [f"python    {python['version']}  {python['executable']}"]
    lines.append(f"          {python['platform']}")
    for name, version in facts["packages"].items():
        lines.append(f"package   {name} {version or 'MISSING'}")
    for name, extra in facts["extras"].items():
        versions = ", ".join(f"{one} {version}" for one, version in extra["versions"].items())
        lines.append(f"extra     {name}: {extra['install'] or versions}")
    cores = f"{hardware['usable_cores']} of {hardware['cores']} cores usable"
    lines.append(f"cpu       {hardware['cpu']}, {cores}")
    if hardware["memory_bytes"]:
        lines.append(f"memory    {format_size(hardware['memory_bytes'])}")
    for blas in hardware["blas"]:
        library = f"{blas['internal_api']} {blas['version'] or ''}".strip()
        lines.append(f"threads   {library}: {blas['num_threads']} here, 1 in a trial")
    gpu = hardware["gpu"]
    if gpu["available"]:
        lines.append(f"gpu       {gpu['name']} x {gpu['count']}, CUDA {gpu['cuda']}")
    else:
        lines.append(f"gpu       none: {gpu['reason']}")
    state = store["problem"] or ("ready" if store["exists"] else "not there yet")
    lines.append(f"store     {store['path']}: {state}")
    plugins = facts["plugins"]
    sorts = ("environments", "estimators", "suites")
    lines.append("plugins   " + ", ".join(f"{plugins[name]} {name}" for name in sorts))
    lines += [
        f"BROKEN    {one['reference']} ({one['origin']}): {one['broken']}"
        for one in plugins["broken"]
    ]
    lines += [f"ambiguous {reference}" for reference in plugins["ambiguous"]]
    return "\n".join(lines)
