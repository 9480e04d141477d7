"""What tells a setting or a method from its namesakes."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ope_bench.records import PluginSpec
from ope_bench.seeding import canonical_json

__all__ = ["setting_label", "setting_labels"]

_ABSENT = object()


def setting_label(spec: PluginSpec, among: Sequence[PluginSpec]) -> str:
    """What tells a setting from its namesakes: its label, or its id with what varies.

    >>> ten, fifty = (PluginSpec("environment", "toy", "toy", {"n": n}) for n in (10, 50))
    >>> setting_label(ten, [ten, fifty])
    'toy n=10'
    """
    return setting_labels([spec, *among])[0]


def setting_labels(specs: Sequence[PluginSpec]) -> list[str]:
    """The `setting_label` of each among all; in one pass, since a run may have thousands."""
    namesakes: dict[str, list[PluginSpec]] = {}
    for spec in specs:
        if not spec.label:
            namesakes.setdefault(spec.id, []).append(spec)
    varying = {name: _varying(group) for name, group in namesakes.items()}
    return [spec.label or _told(spec, *varying[spec.id]) for spec in specs]


def _varying(namesakes: Sequence[PluginSpec]) -> tuple[set[str], bool, bool]:
    """The parameters that are not the same for all, and whether worlds and version vary."""
    first = namesakes[0]
    names = {
        name
        for other in namesakes
        for name in first.params.keys() | other.params.keys()
        if other.params.get(name, _ABSENT) != first.params.get(name, _ABSENT)
    }
    worlds, version = (
        any(getattr(other, name) != getattr(first, name) for other in namesakes)
        for name in ("worlds", "version")
    )
    return names, worlds, version


def _told(spec: PluginSpec, names: Container[str], worlds: bool, version: bool) -> str:
    shown = [f"{name}={_word(value)}" for name, value in spec.params.items() if name in names]
    if worlds:
        shown.append(f"worlds={spec.worlds}")
    if version:
        shown.append(f"version={spec.version}")
    return " ".join([spec.id, *shown])


def _word(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)
