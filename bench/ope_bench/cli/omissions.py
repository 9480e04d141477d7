"""What a suite names and its plan leaves out, in words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ope_bench.manifest import Manifest
from ope_bench.registry import registry
from ope_bench.trial import devices_of

__all__ = ["left_out", "why_empty"]

NAMES_SHOWN = 6


def left_out(manifest: Manifest) -> str:
    """Which estimators no trial is planned for, for want of a device; empty if none."""
    if not manifest.without_device or not manifest.cells:
        return ""
    return f"left out: {_homeless(manifest)}"


def why_empty(manifest: Manifest) -> str:
    """Why nothing is planned, and what to do."""
    if not manifest.without_device:
        return "the plan is empty: every combination is excluded"
    told = f"the plan is empty: {_homeless(manifest)}"
    homes = [home for _, homes in manifest.without_device for home in homes]
    if homes:
        told += f"; try --device {homes[0]}"
    able = _able(manifest.suite.devices)
    return f"{told}, or estimators that do: {_names(able)}" if able else told


def _homeless(manifest: Manifest) -> str:
    wanted = " or ".join(manifest.suite.devices)
    by_homes: dict[tuple[str, ...], list[str]] = {}
    for spec, homes in manifest.without_device:
        by_homes.setdefault(homes, []).append(spec.label or spec.id)
    known = (f"{_names(names)} (only {', '.join(homes)})" for homes, names in by_homes.items())
    count = len(manifest.without_device)
    verb = "does" if count == 1 else "do"
    return f"{count} estimator{'s' * (count > 1)} {verb} not run on {wanted}: {'; '.join(known)}"


def _names(names: Iterable[str]) -> str:
    told = list(dict.fromkeys(names))
    more = f" and {len(told) - NAMES_SHOWN} more" if len(told) > NAMES_SHOWN else ""
    return ", ".join(told[:NAMES_SHOWN]) + more


def _able(devices: Iterable[str]) -> list[str]:
    """Installed estimators that run there without being told a parameter."""
    wanted = set(devices)
    found = []
    for plugin in registry().plugins("estimator"):
        # One that is broken or needs parameters is no advice.
        with contextlib.suppress(Exception):
            if wanted.intersection(devices_of(plugin.cls())):
                found.append(plugin.id)
    return found
