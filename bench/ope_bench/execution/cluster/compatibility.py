"""Compare the code and versions of a worker with those of the coordinator."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ope_bench.execution.child_python import import_path, python_command
from ope_bench.execution.machine import machine_facts
from ope_bench.plugins.code_digest import code_digest, result_digest
from ope_bench.plugins.registry import Kind, registry
from ope_bench.plugins.requirements import LEARNERS, NUMERICAL, installed_version, is_installed
from ope_bench.plugins.spec import PluginSpec

__all__ = ["Question", "examine_in_new_process", "findings", "mismatches", "questions", "remedy"]

Question = tuple[Kind, str, Mapping[str, Any]]
"""Kind, reference and parameters of one plugin."""

_MACHINE = ("platform", "cpu", "cores", "memory_bytes", "gpu", "gpu_driver", "blas")

PATIENCE = 120.0


def questions(specs: Iterable[PluginSpec]) -> list[Question]:
    """Return the questions about the plugins of a plan."""
    return [(spec.kind, spec.reference, dict(spec.params)) for spec in specs]


def findings(asked: Iterable[Question]) -> dict[str, Any]:
    """Return the versions and digests of this process, as plain values."""
    plugins = [_plugin(*question) for question in asked]
    needed = {module for plugin in plugins for module in plugin.get("requires", ())}
    names = [*NUMERICAL, *(LEARNERS[name] for name in sorted(needed & {*LEARNERS}))]
    facts = machine_facts()
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "packages": {name: _version(name) for name in ("ope-bench", *names)},
        "plugins": plugins,
        "machine": {name: facts.get(name) for name in _MACHINE},
    }


def _plugin(kind: Kind, reference: str, params: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": f"{kind} '{reference.rpartition(':')[2]}'"}
    try:
        plugin = registry().find(kind, reference)
        built = plugin.cls(**params)
        requires = sorted({module.partition(".")[0] for module in built.requires})
        found |= {
            "origin": plugin.origin,
            "code": code_digest(plugin.cls),
            "requires": requires,
            "lacks": [module for module in requires if not is_installed(module)],
        }
        if kind == "environment" and built.data_files:
            # With itself, since `result_digest` reads data files of the first class only.
            found["data"] = result_digest(built, built)
    # A plugin may raise anything when built; the worker must report that and continue.
    except Exception as exc:
        found["problem"] = f"{type(exc).__name__}: {exc}"
    return found


def _version(name: str) -> str | None:
    # The part after a plus names the device for which a wheel was built.
    return (installed_version(name) or "").partition("+")[0] or None


def examine_in_new_process(asked: Sequence[Question]) -> dict[str, Any]:
    """Return the findings of a new process, which hold for future slots.

    The worker's own process may be older than the last change of the code.
    """
    done = subprocess.run(  # noqa: S603
        python_command(__name__),
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **import_path()},
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["the process ended without any output"])[-1]
        raise RuntimeError(last)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Read questions from standard input; print findings as the last line of standard output."""
    asked = [(kind, reference, params) for kind, reference, params in json.load(sys.stdin)]
    sys.stdout.write("\n" + json.dumps(findings(asked)) + "\n")


def mismatches(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Describe the differences by which a worker's numbers may differ.

    >>> ours = {"python": "3.11", "packages": {"numpy": "2.4.1"}, "plugins": []}
    >>> mismatches(ours, {**ours, "packages": {"numpy": "2.3.0"}})
    ['numpy 2.3.0 there, 2.4.1 here']
    """
    told = []
    if here["python"] != there["python"]:
        told.append(f"Python {there['python']} there, {here['python']} here")
    for name, version in here["packages"].items():
        if version is not None and there["packages"].get(name) != version:
            told.append(_versions(name, there["packages"].get(name), version))
    other_code = []
    for ours, theirs in zip(here["plugins"], there["plugins"], strict=True):
        name = ours["name"]
        if "problem" in theirs:
            if "problem" not in ours:
                told.append(f"no {name} ({ours['origin']}) there: {theirs['problem']}")
            continue
        if missing := sorted({*theirs["lacks"]} - {*ours.get("lacks", ())} - {*LEARNERS}):
            told.append(f"no module {', '.join(missing)} there, which {name} needs")
        if ours.get("origin") != theirs["origin"]:
            told.append(f"{name} of {theirs['origin']} there, of {ours.get('origin')} here")
        elif ours.get("code") != theirs["code"]:
            other_code.append(name)
        elif ours.get("data") != theirs.get("data"):
            told.append(f"other data files of {name} there")
    if other_code:
        told.append(f"other code of {_listed(list(dict.fromkeys(other_code)))} there")
    return list(dict.fromkeys(told))


def _versions(name: str, there: str | None, here: str) -> str:
    return f"{name} {there} there, {here} here" if there else f"no {name} there, {here} here"


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more plugins"


def remedy(here: Mapping[str, Any], there: Mapping[str, Any] | None) -> str:
    """Return a remedy for the differences, in one line."""
    wanted = [
        f"{name}=={version}"
        for name, version in here["packages"].items()
        if version is not None and (there is None or there["packages"].get(name) != version)
    ]
    dists = {}
    for ours, theirs in zip(here["plugins"], there["plugins"] if there else (), strict=False):
        dist, _, version = ours.get("origin", "").rpartition(" ")
        if dist and (theirs.get("origin") != ours["origin"]) and dist != "ope-bench":
            dists[dist] = version
    wanted += [f"{dist}=={version}" for dist, version in dists.items()]
    if not wanted:
        return "install the same source there and start the worker again"
    return f"on the worker: pip install {' '.join(wanted)}, then start it again"
