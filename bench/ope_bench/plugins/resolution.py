"""Resolve what a user names to a validated PluginSpec."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ope_bench.canonical import canonical_json
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.parameters.declaration import added_defaults, without_added_defaults
from ope_bench.contracts.parameters.validation import validated
from ope_bench.contracts.random.seeding import ProblemSampling
from ope_bench.errors import ParameterError, PluginError
from ope_bench.plugins.registry import Kind, class_id, registry
from ope_bench.plugins.spec import PluginSpec

__all__ = ["complete_params", "resolve", "spec_of"]


def resolve(
    kind: Kind, reference: str, params: Mapping[str, Any] | None = None, *, label: str = ""
) -> PluginSpec:
    """Return the spec of a registered plugin or of a class in a file.

    Environments accept ``worlds: redrawn|fixed`` in addition to their own parameters.

    Raises
    ------
    PluginError : no plugin or more than one has that name, or it cannot be loaded.
    ParameterError : a parameter is unknown, of the wrong type or out of range.
    """
    plugin = registry().find(kind, reference)
    return _spec(kind, plugin.cls, params or {}, plugin.reference, plugin.id, plugin.origin, label)


def spec_of(plugin: Environment | Estimator, *, label: str = "") -> PluginSpec:
    """Return the spec of an object, under the id that its installed plugin has or would have."""
    kind: Kind = "environment" if isinstance(plugin, Environment) else "estimator"
    cls = type(plugin)
    target = f"{cls.__module__}:{cls.__qualname__}"
    registered = [item for item in registry().plugins(kind) if item.target == target]
    params = plugin.get_params(deep=False)
    if registered:
        found = registered[0]
        return _spec(kind, cls, params, found.reference, found.id, found.origin, label)
    return _spec(kind, cls, params, target, class_id(cls), cls.__module__, label)


def complete_params(kind: Kind, reference: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec's parameters, with omitted added ones at their default.

    Nothing is added for a plugin that is not installed.
    """
    try:
        cls = registry().find(kind, reference).cls
    except PluginError:
        return dict(params)
    return {**added_defaults(cls), **params}


def _spec(
    kind: Kind,
    cls: type,
    params: Mapping[str, Any],
    reference: str,
    plugin_id: str,
    origin: str,
    label: str,
) -> PluginSpec:
    values = dict(params)
    worlds: ProblemSampling = "redrawn"
    version = 0
    if kind == "environment":
        worlds = values.pop("worlds", "redrawn")
        version = cast(type[Environment], cls).version
        if worlds not in ("redrawn", "fixed"):
            msg = f"{plugin_id}: parameter 'worlds' = {worlds!r}: expected 'redrawn' or 'fixed'"
            raise ParameterError(msg)
    checked = without_added_defaults(cls, validated(cls, values, name=plugin_id))
    try:
        plain = json.loads(canonical_json(checked))
    except (TypeError, ValueError) as exc:
        msg = f"{plugin_id}: a parameter cannot be stored as JSON: {exc}"
        raise ParameterError(msg) from exc
    return PluginSpec(
        kind,
        reference,
        plugin_id,
        plain,
        label=label,
        worlds=worlds,
        version=version,
        origin=origin,
    )
