"""``ope-bench data``: what environments need on this machine, one verb a plugin.

The verbs are typer applications of the entry-point group ``ope_bench.data``.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache
from typing import Any

import typer
import typer.core

from ope_bench.errors import PluginError

__all__ = ["GROUP", "app"]

GROUP = "ope_bench.data"


@cache
def _points() -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}


class _Sources(typer.core.TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(_points())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        point = _points().get(cmd_name)
        if point is None:
            return None
        try:
            application = point.load()
        except Exception as exc:
            owner = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
            reason = f"{type(exc).__name__}: {exc}"
            msg = f"data '{cmd_name}' ({owner}, {point.value}) cannot be loaded: {reason}"
            raise PluginError(msg) from exc
        command = typer.main.get_command(application)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=_Sources, add_completion=False, rich_markup_mode=None, no_args_is_help=True
)


@app.callback()
def _about() -> None:
    """Fetch, check or convert the data that an environment needs."""
