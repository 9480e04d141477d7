"""Explain which suite entries were not planned, and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ope_bench.plugins.registry import registry
from ope_bench.suites.manifest import Manifest
from ope_bench.trials.trial import devices_of

__all__ = ["unplanned", "why_empty"]

NAMES_SHOWN = 6


def unplanned(manifest: Manifest) -> str:
    """Describe estimators without trials because of their devices; empty if there are none."""
    if not manifest.without_device or not manifest.cells:
        return ""
    return f"left out: {_estimators_without_device(manifest)}"


def why_empty(manifest: Manifest) -> str:
    """Explain why nothing is planned, and what to do."""
    if not manifest.without_device:
        return "the plan is empty: every combination is excluded"
    message = f"the plan is empty: {_estimators_without_device(manifest)}"
    other_devices = [
        device for _, other_devices in manifest.without_device for device in other_devices
    ]
    if other_devices:
        message += f"; try --device {other_devices[0]}"
    able = _able(manifest.suite.devices)
    return f"{message}, or estimators that do: {_names(able)}" if able else message


def _estimators_without_device(manifest: Manifest) -> str:
    devices = " or ".join(manifest.suite.devices)
    by_devices: dict[tuple[str, ...], list[str]] = {}
    for spec, other_devices in manifest.without_device:
        by_devices.setdefault(other_devices, []).append(spec.label or spec.id)
    known = (
        f"{_names(names)} (only {', '.join(other_devices)})"
        for other_devices, names in by_devices.items()
    )
    count = len(manifest.without_device)
    verb = "does" if count == 1 else "do"
    return f"{count} estimator{'s' * (count > 1)} {verb} not run on {devices}: {'; '.join(known)}"


def _names(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - NAMES_SHOWN} more" if len(distinct) > NAMES_SHOWN else ""
    return ", ".join(distinct[:NAMES_SHOWN]) + more


def _able(devices: Iterable[str]) -> list[str]:
    """Return installed estimators that run on the devices without required parameters."""
    available = set(devices)
    ids = []
    for plugin in registry().plugins("estimator"):
        # Broken estimators and those with required parameters are not suggested.
        with contextlib.suppress(Exception):
            if available.intersection(devices_of(plugin.cls())):
                ids.append(plugin.id)
    return ids
