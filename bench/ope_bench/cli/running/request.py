"""Build a suite from the options of ``ope-bench run``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ope_bench.console.output import note
from ope_bench.errors import UsageError
from ope_bench.plugins.requirements import is_installed, pip_line
from ope_bench.suites.changes import with_changes
from ope_bench.suites.discovery import find_suite
from ope_bench.suites.manifest import Manifest
from ope_bench.suites.selector import parse_selector
from ope_bench.suites.suite import Suite, adhoc
from ope_bench.trials.building import build
from ope_bench.trials.devices import Device

__all__ = ["Request", "check_data_files", "check_modules", "suite_of"]

DEFAULT_SUITE = "quick"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a command line; None where not given."""

    suite: str | None = None
    environments: Sequence[str] = ()
    estimators: Sequence[str] = ()
    replicates: int | None = None
    seed: int | None = None
    devices: tuple[Device, ...] | None = None
    timeout: float | None = None
    memory: int | None = None
    timing: bool = False
    changes: Sequence[str] = ()


def suite_of(request: Request) -> Suite:
    """Return the requested suite, with the parts that options replace.

    Raises
    ------
    UsageError : the suite is unknown, a selector cannot be read, or only environments or only
        estimators are named.
    """
    suite = _base(request)
    settings: dict[str, Any] = {
        name: given
        for name in ("replicates", "seed", "devices", "timeout", "memory")
        if (given := getattr(request, name)) is not None
    }
    if request.timing:
        settings["timing"] = True
    return with_changes(replace(suite, **settings), request.changes)


def _base(request: Request) -> Suite:
    given = adhoc(request.environments, request.estimators)
    if request.suite is None and (given.environments or given.estimators):
        if not (given.environments and given.estimators):
            missing = "--est" if given.environments else "--env"
            msg = f"{missing} is missing: without a suite, name environments and estimators"
            raise UsageError(msg)
        return given
    suite = find_suite(request.suite or DEFAULT_SUITE)
    if given.environments:
        suite = replace(suite, environments=given.environments)
    if given.estimators:
        suite = replace(suite, estimators=given.estimators)
    return suite


def check_data_files(manifest: Manifest) -> None:
    """Refuse a plan whose data are not where its parameters say.

    Raises
    ------
    UsageError : a path is missing, unreadable, or neither a file nor a folder.
    """
    for spec in manifest.plugins():
        for name in getattr(build(spec), "data_files", ()):
            path = Path(name)
            # A name without folder and ending may be that of data in a package.
            is_path = path.name != name or bool(path.suffix)
            if not path.exists() and not is_path:
                continue
            reason = _why_unusable(path)
            if reason:
                msg = f"{spec.kind} '{spec.id}': {name}: {reason}"
                raise UsageError(msg)


def _why_unusable(path: Path) -> str:
    if not path.exists():
        return "no such file or folder"
    if not (path.is_file() or path.is_dir()):
        return "neither a file nor a folder"
    return "" if os.access(path, os.R_OK) else "not readable"


def check_modules(manifest: Manifest, request: Request) -> None:
    """Report plugins with missing modules.

    Raises
    ------
    UsageError : the command line names such a plugin explicitly.
    """
    named = {
        parse_selector(text).reference for text in (*request.environments, *request.estimators)
    }
    for spec in manifest.plugins():
        missing = [module for module in build(spec).requires if not is_installed(module)]
        if not missing:
            continue
        line = pip_line(missing[0])
        if named & {spec.id, spec.reference}:
            msg = f"{spec.kind} '{spec.id}' needs '{missing[0]}', which is not installed: {line}"
            raise UsageError(msg)
        note(f"{spec.kind} '{spec.id}' will be unavailable; to install it: {line}")
