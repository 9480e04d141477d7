"""Specification of a plugin: its id with all its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from ope_bench.canonical import canonical_json
from ope_bench.contracts.random.seeding import ProblemSampling
from ope_bench.plugins.registry import Kind

__all__ = ["PluginSpec"]


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
