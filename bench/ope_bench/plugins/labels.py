"""Labels that show only the parameters in which settings or estimators of one id differ."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ope_bench.canonical import canonical_json
from ope_bench.plugins.spec import PluginSpec

__all__ = ["distinct_label", "distinct_labels"]

_ABSENT = object()


def distinct_label(spec: PluginSpec, among: Sequence[PluginSpec]) -> str:
    """Return a spec's label, or its id with the parameters in which specs of that id differ.

    >>> ten, fifty = (PluginSpec("environment", "toy", "toy", {"n": n}) for n in (10, 50))
    >>> distinct_label(ten, [ten, fifty])
    'toy n=10'
    """
    return distinct_labels([spec, *among])[0]


def distinct_labels(specs: Sequence[PluginSpec]) -> list[str]:
    """Return the `distinct_label` of each spec among all, in one pass for thousands of specs."""
    namesakes: dict[str, list[PluginSpec]] = {}
    for spec in specs:
        if not spec.label:
            namesakes.setdefault(spec.id, []).append(spec)
    varying = {name: _varying(group) for name, group in namesakes.items()}
    return [spec.label or _label(spec, *varying[spec.id]) for spec in specs]


def _varying(namesakes: Sequence[PluginSpec]) -> tuple[set[str], bool, bool]:
    """Return the parameters that differ, and whether ``worlds`` and ``version`` do."""
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


def _label(spec: PluginSpec, names: Container[str], worlds: bool, version: bool) -> str:
    parts = [f"{name}={_text(value)}" for name, value in spec.params.items() if name in names]
    if worlds:
        parts.append(f"worlds={spec.worlds}")
    if version:
        parts.append(f"version={spec.version}")
    return " ".join([spec.id, *parts])


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)
