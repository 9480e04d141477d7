"""Build plugins from their specs."""

from __future__ import annotations

from typing import Any

from ope_bench.errors import OpeBenchError, PluginError
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec

__all__ = [
    "build",
    "build_checked",
]


def build(spec: PluginSpec) -> Any:
    """Build the environment or estimator that a spec describes."""
    return registry().find(spec.kind, spec.reference).cls(**spec.params)


def build_checked(spec: PluginSpec) -> Any:
    """Build a plugin outside of a trial, where its mistakes must end in one line.

    Raises
    ------
    PluginError : the constructor raises something else than an error of the suite, or does not
        store a parameter under its own name: copies would then have other parameters.
    """
    where = f"{spec.kind} '{spec.id}' ({spec.origin})"
    try:
        plugin = build(spec)
    except OpeBenchError:
        raise
    except Exception as exc:
        msg = f"{where} fails when built: {type(exc).__name__}: {exc}"
        raise PluginError(msg) from exc
    for name in spec.params:
        if not hasattr(plugin, name):
            cls = type(plugin).__name__
            msg = (
                f"{where}: {cls}.__init__ does not store '{name}' under its own name; "
                f"write self.{name} = {name}"
            )
            raise PluginError(msg)
    return plugin
