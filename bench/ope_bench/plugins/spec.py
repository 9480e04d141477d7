"""Specification of a plugin: its id with all its parameters, and how it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, cast

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import ParameterError, PluginError
from ope_bench.contracts.parameters import added_defaults, validated, without_added_defaults
from ope_bench.contracts.plugins import Environment, Estimator
from ope_bench.contracts.random import ProblemSampling
from ope_bench.plugins.code_digest import code_digest
from ope_bench.plugins.registry import Kind, Plugin, class_id, registry


@dataclass(frozen=True)
class PluginSpec:
    """One environment or estimator with all its parameters.

    Parameters
    ----------
    kind : environment or estimator.
    reference : text by which the registry finds it: ``ipw``, ``acme-ope:ipw`` or
        ``./my.py:MyIPW``.
    id : its canonical name, which enters keys and seeds.
    params : all parameters, validated, as JSON values; a parameter that the class gained later
        (``added_parameters``) is omitted while it has its former value, so that keys stay
        unchanged.
    label : its name on boards; empty for the default.
    worlds : environments only: the problem is redrawn in each replicate, or fixed for all.
    version : environments only: counts changes that alter numbers.
    origin : distribution and version of the plugin, or its file.
    """

    kind: Kind
    reference: str
    id: str
    params: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    label: str = ""
    worlds: ProblemSampling = "redrawn"
    version: int = 0
    origin: str = ""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The parts that enter a trial's key."""
        asked: dict[str, Any] = {"id": self.id, "params": dict(self.params)}
        if self.kind == "environment":
            asked |= {"worlds": self.worlds, "version": self.version}
        return asked

    @cached_property
    def identity_json(self) -> str:
        """The identity as canonical JSON, cached because thousands of trials share it."""
        return canonical_json(self.identity)

    @cached_property
    def stream_id(self) -> str:
        """The id in every stream of seeds: that of the environment that this one wraps, if any."""
        try:
            cls = cast(type[Environment], registry().find(self.kind, self.reference).cls)
        except PluginError:
            # An object of a class that is not installed.
            return self.id
        if cls.wrapped is Environment.wrapped:
            return self.id
        wrapped = cls(**self.params).wrapped
        return self.id if wrapped is None else spec_of(wrapped).stream_id


# Labels that show only the parameters in which settings or estimators of one id differ.

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
    labels = []
    for spec in specs:
        parts = [
            f"{name}={value if isinstance(value, str) else canonical_json(value)}"
            for name, value in _said(spec).items()
            if not spec.label and name in varying[spec.id]
        ]
        labels.append(spec.label or " ".join([spec.id, *parts]))
    return labels


def _varying(namesakes: Sequence[PluginSpec]) -> set[str]:
    """Return the names of parameters, ``worlds`` and ``version`` that differ."""
    first, *others = map(_said, namesakes)
    return {
        name
        for other in others
        for name in first.keys() | other.keys()
        if other.get(name, _ABSENT) != first.get(name, _ABSENT)
    }


def _said(spec: PluginSpec) -> dict[str, Any]:
    # Estimators have neither, and may have parameters of these names.
    ours = {} if spec.kind == "estimator" else {"worlds": spec.worlds, "version": spec.version}
    return {**spec.params, **ours}


# Resolve what a user names to a validated PluginSpec.


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
    if ".py:" in plugin.target:
        # Refuses imports for which a file of another folder answers, before a number is computed.
        code_digest(plugin.cls)
    return _spec(plugin, plugin.cls, params or {}, label)


def spec_of(plugin: Environment | Estimator, *, label: str = "") -> PluginSpec:
    """Return the spec of an object, under the id that its installed plugin has or would have."""
    kind: Kind = "environment" if isinstance(plugin, Environment) else "estimator"
    cls = type(plugin)
    target = f"{cls.__module__}:{cls.__qualname__}"
    known = [item for item in registry().plugins(kind) if item.target == target]
    unknown = Plugin(kind, class_id(cls), reference=target, origin=cls.__module__, target=target)
    return _spec(known[0] if known else unknown, cls, plugin.get_params(deep=False), label)


def complete_params(kind: Kind, reference: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec's parameters, with omitted added ones at their default.

    Nothing is added for a plugin that is not installed.
    """
    try:
        cls = registry().find(kind, reference).cls
    except PluginError:
        return dict(params)
    return {**added_defaults(cls), **params}


def _spec(plugin: Plugin, cls: type, params: Mapping[str, Any], label: str) -> PluginSpec:
    values = dict(params)
    worlds: ProblemSampling = "redrawn"
    version = 0
    if plugin.kind == "environment":
        worlds = values.pop("worlds", "redrawn")
        version = cast(type[Environment], cls).version
        if worlds not in ("redrawn", "fixed"):
            msg = f"{plugin.id}: parameter 'worlds' = {worlds!r}: expected 'redrawn' or 'fixed'"
            raise ParameterError(msg)
    checked = without_added_defaults(cls, validated(cls, values, name=plugin.id))
    try:
        plain = json.loads(canonical_json(checked))
    except (TypeError, ValueError) as exc:
        msg = f"{plugin.id}: a parameter cannot be stored as JSON: {exc}"
        raise ParameterError(msg) from exc
    return PluginSpec(
        plugin.kind,
        plugin.reference,
        plugin.id,
        plain,
        label=label,
        worlds=worlds,
        version=version,
        origin=plugin.origin,
    )
