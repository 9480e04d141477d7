"""``ope-bench doctor``: describe this machine and its installed packages."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.console.output import Format, FormatOption, document, write
from ope_bench.plugins.requirements import CORE, EXTRAS, installed_version

__all__ = ["command"]


def command(store: StoreOption = DEFAULT_STORE, output: FormatOption = Format.TEXT) -> int:
    """Show versions, missing extras, hardware, the store's state and broken plugins."""
    with document(output) as emit:
        facts = {
            "schema": 1,
            "python": {
                "version": platform.python_version(),
                "executable": sys.executable,
                "platform": platform.platform(),
            },
            "packages": {name: installed_version(name) for name in ("ope-bench", *CORE.values())},
            "extras": {name: _extra(name) for name in EXTRAS},
            "hardware": _hardware(),
            "store": _store(store),
            "plugins": _plugins(),
        }
        emit(facts)
    if output is Format.TEXT:
        write(_text(facts))
    return 0


def _extra(name: str) -> dict[str, Any]:
    parts = EXTRAS[name]
    missing = [module for module in parts if importlib.util.find_spec(module) is None]
    return {
        "installed": not missing,
        "versions": {
            distribution: installed_version(distribution) for distribution in parts.values()
        },
        "install": f'pip install "ope-bench[{name}]"' if missing else None,
    }


def _hardware() -> dict[str, Any]:
    from ope_bench.execution.machine import available_cores, cpu_name, memory_bytes, thread_pools

    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "usable_cores": available_cores(),
        "memory_bytes": memory_bytes(),
        "blas": thread_pools(),
        "gpu": _gpu(),
    }


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
                facts |= asdict(opened.info())
        except StoreError as exc:
            facts["problem"] = str(exc)
    return facts


def _plugins() -> dict[str, Any]:
    from ope_bench.cli.inventory import Kind, rows_of

    rows = {kind.value: rows_of(kind) for kind in Kind}
    every = [row for group in rows.values() for row in group]
    return {
        **{name: sum(not row["broken"] for row in group) for name, group in rows.items()},
        "broken": [row for row in every if row["broken"]],
        "ambiguous": sorted({row["reference"] for row in every if row["ambiguous"]}),
    }


def _text(facts: dict[str, Any]) -> str:
    from ope_bench.units import format_size

    python, hardware, store = facts["python"], facts["hardware"], facts["store"]
    lines = [f"python    {python['version']}  {python['executable']}"]
    lines.append(f"          {python['platform']}")
    for name, version in facts["packages"].items():
        lines.append(f"package   {name} {version or 'MISSING'}")
    for name, extra in facts["extras"].items():
        versions = ", ".join(f"{one} {version}" for one, version in extra["versions"].items())
        missing = extra["install"] and f"MISSING, {extra['install']}"
        lines.append(f"extra     {name}: {missing or versions}")
    cores = f"{hardware['usable_cores']} of {hardware['cores']} cores usable"
    lines.append(f"cpu       {hardware['cpu']}, {cores}")
    lines.append(f"memory    {format_size(hardware['memory_bytes'])}")
    # NumPy and SciPy may have the same library each.
    pools = [
        f"{blas['internal_api']} {blas['version'] or ''}".strip()
        + f": {blas['num_threads']} here, 1 in a trial"
        for blas in hardware["blas"]
    ]
    lines += [f"threads   {text}" for text in dict.fromkeys(pools)]
    gpu = hardware["gpu"]
    if gpu["available"]:
        lines.append(f"gpu       {gpu['name']} x {gpu['count']}, CUDA {gpu['cuda']}")
    else:
        lines.append(f"gpu       none: {gpu['reason']}")
    state = store["problem"] or ("ready" if store["exists"] else "not there yet")
    lines.append(f"store     {store['path']}: {state}")
    plugins = facts["plugins"]
    kinds = ("environments", "estimators", "suites")
    lines.append("plugins   " + ", ".join(f"{plugins[name]} {name}" for name in kinds))
    lines += [
        f"BROKEN    {one['reference']} ({one['origin']}): {one['broken']}"
        for one in plugins["broken"]
    ]
    lines += [f"ambiguous {reference}" for reference in plugins["ambiguous"]]
    return "\n".join(lines)
