"""From the flags of ``ope-bench run`` to a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ope_bench.catalogue import find_suite
from ope_bench.errors import UsageError
from ope_bench.suite import Device, Suite, adhoc

__all__ = ["Request", "named_modules", "suite_of"]

DEFAULT_SUITE = "quick"

_DEVICES: dict[str, tuple[Device, ...]] = {
    "cpu": ("cpu",),
    "cuda": ("cuda",),
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


def named_modules(request: Request, missing: dict[str, list[str]]) -> list[str]:
    """Those of the plugins with missing modules that the command line itself names."""
    from ope_bench.selector import parse_selector

    specs = [*request.environments, *request.estimators]
    asked = {parse_selector(text).reference for text in specs}
    return [reference for reference in missing if reference in asked]
