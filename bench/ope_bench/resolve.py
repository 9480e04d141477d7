"""From what a user names to a validated PluginSpec."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, cast

from ope_bench.environment import Environment
from ope_bench.errors import ParameterError
from ope_bench.estimator import Estimator
from ope_bench.parameters import signature, validated
from ope_bench.records import PluginSpec
from ope_bench.registry import Kind, class_id, registry
from ope_bench.seeding import Worlds, canonical_json
from ope_bench.selector import format_selector

__all__ = ["resolve", "selector_of", "spec_of"]


def resolve(
    kind: Kind, reference: str, params: Mapping[str, Any] | None = None, *, label: str = ""
) -> PluginSpec:
    """The spec of a registered plugin or of a class in a file.

    Environments take ``worlds: redrawn|fixed`` beside their own parameters.

    Raises
    ------
    PluginError : nothing, or more than one thing, has that name, or it cannot be loaded.
    ParameterError : a parameter is unknown, of the wrong type or out of range.
    """
    plugin = registry().find(kind, reference)
    return _spec(kind, plugin.cls, params or {}, plugin.reference, plugin.id, plugin.origin, label)


def spec_of(plugin: Environment | Estimator, *, label: str = "") -> PluginSpec:
    """The spec of an object, under the id that its installed plugin has or would have."""
    kind: Kind = "environment" if isinstance(plugin, Environment) else "estimator"
    cls = type(plugin)
    target = f"{cls.__module__}:{cls.__qualname__}"
    named = [known for known in registry().plugins(kind) if known.target == target]
    params = plugin.get_params(deep=False)
    if named:
        known = named[0]
        return _spec(kind, cls, params, known.reference, known.id, known.origin, label)
    return _spec(kind, cls, params, target, class_id(cls), cls.__module__, label)


def _spec(
    kind: Kind,
    cls: type,
    params: Mapping[str, Any],
    reference: str,
    plugin_id: str,
    origin: str,
    label: str,
) -> PluginSpec:
    given = dict(params)
    worlds: Worlds = "redrawn"
    version = 0
    if kind == "environment":
        worlds = given.pop("worlds", "redrawn")
        version = cast(type[Environment], cls).version
        if worlds not in ("redrawn", "fixed"):
            msg = f"{plugin_id}: parameter 'worlds' = {worlds!r}: expected 'redrawn' or 'fixed'"
            raise ParameterError(msg)
    checked = validated(cls, given, name=plugin_id)
    try:
        plain = json.loads(canonical_json(checked))
    except (TypeError, ValueError) as exc:
        msg = f"{plugin_id}: a parameter cannot be stored as JSON: {exc}"
        raise ParameterError(msg) from exc
    return PluginSpec(kind, reference, plugin_id, plain, label, worlds, version, origin)


def selector_of(spec: PluginSpec) -> str:
    """The shortest selector that names a setting: its id with what differs from the defaults."""
    defaults = {
        name: one.default
        for name, one in signature(registry().find(spec.kind, spec.reference).cls).items()
    }
    differing = {
        name: value
        for name, value in spec.params.items()
        if not _is_default(value, defaults.get(name, inspect.Parameter.empty))
    }
    if spec.worlds != "redrawn":
        differing["worlds"] = spec.worlds
    in_file = spec.reference.rpartition(":")[0].endswith(".py")
    return format_selector(spec.id if not in_file else spec.reference, differing)


def _is_default(value: object, default: object) -> bool:
    if default is inspect.Parameter.empty:
        return False
    try:
        return canonical_json(value) == canonical_json(default) or value == default
    except (TypeError, ValueError):
        return False
