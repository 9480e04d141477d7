"""What tells a setting or a method from its namesakes."""

from __future__ import annotations

from collections.abc import Sequence

from ope_bench.records import PluginSpec
from ope_bench.seeding import canonical_json

__all__ = ["setting_label"]

_ABSENT = object()


def setting_label(spec: PluginSpec, among: Sequence[PluginSpec]) -> str:
    """What tells a setting from its namesakes: its label, or its id with what varies.

    >>> ten, fifty = (PluginSpec("environment", "toy", "toy", {"n": n}) for n in (10, 50))
    >>> setting_label(ten, [ten, fifty])
    'toy n=10'
    """
    if spec.label:
        return spec.label
    namesakes = [other for other in among if other.id == spec.id and not other.label]
    shown = [
        f"{name}={_word(value)}"
        for name, value in spec.params.items()
        if any(other.params.get(name, _ABSENT) != value for other in namesakes)
    ]
    if any(other.worlds != spec.worlds for other in namesakes):
        shown.append(f"worlds={spec.worlds}")
    if any(other.version != spec.version for other in namesakes):
        shown.append(f"version={spec.version}")
    return " ".join([spec.id, *shown])


def _word(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)
