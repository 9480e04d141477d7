"""From the flags of ``ope-bench run`` to a suite."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ope_bench.catalogue import find_suite
from ope_bench.cli.output import note
from ope_bench.devices import DEVICES, Device
from ope_bench.errors import UsageError
from ope_bench.manifest import Manifest
from ope_bench.requirements import pip_line
from ope_bench.selector import parse_selector
from ope_bench.suite import Suite, adhoc
from ope_bench.trial import build

__all__ = ["Request", "check_modules", "suite_of"]

DEFAULT_SUITE = "quick"

_DEVICES: dict[str, tuple[Device, ...]] = {
    **{device: (device,) for device in DEVICES},
    # The batched kinds answer the same questions over again: only who names them wants that.
    "all": ("cpu", "cuda"),
}


@dataclass(frozen=True)
class Request:
    """What the command line asks for; None where it does not say."""

    suite: str | None = None
    environments: Sequence[str] = ()
    estimators: Sequence[str] = ()
    replicates: int | None = None
    seed: int | None = None
    device: str | None = None
    timeout: float | None = None
    memory: int | None = None
    timing: bool = False


def suite_of(request: Request) -> Suite:
    """The suite that is asked for, with what the flags replace in it.

    Raises
    ------
    UsageError : there is no such suite, a selector cannot be read, or one half of a cross product
        is missing.
    """
    suite = _base(request)
    settings: dict[str, Any] = {
        name: given
        for name in ("replicates", "seed", "timeout", "memory")
        if (given := getattr(request, name)) is not None
    }
    if request.timing:
        settings["timing"] = True
    if request.device is not None:
        settings["devices"] = _DEVICES[request.device]
    return replace(suite, **settings)


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


def check_modules(manifest: Manifest, request: Request) -> None:
    """Say which plugins lack a module.

    Raises
    ------
    UsageError : the command line itself names one of them.
    """
    asked = {
        parse_selector(text).reference for text in (*request.environments, *request.estimators)
    }
    for spec in manifest.plugins():
        missing = [module for module in build(spec).requires if not _installed(module)]
        if not missing:
            continue
        line = pip_line(missing[0])
        if asked & {spec.id, spec.reference}:
            msg = f"{spec.kind} '{spec.id}' needs '{missing[0]}', which is not installed: {line}"
            raise UsageError(msg)
        note(f"{spec.kind} '{spec.id}' will be unavailable; to have it: {line}")


def _installed(module: str) -> bool:
    """Whether it can be found; nothing is imported but its parents' specs."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
