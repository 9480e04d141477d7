"""``ope-bench data``: prepare the raw data of environments.

A package adds its command by an entry point of the group ``ope_bench.data``: a function or a typer
application.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import typer
import typer.core

from ope_bench.cli.commands import command_of
from ope_bench.errors import PluginError, UsageError

__all__ = ["GROUP", "app"]

GROUP = "ope_bench.data"


class _Installed(typer.core.TyperGroup):
    """A group whose commands are entry points, loaded when used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({point.name for point in _points()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        points = [point for point in _points() if point.name == cmd_name]
        if len({point.value for point in points}) > 1:
            owners = " and ".join(sorted(point.dist.name for point in points if point.dist))
            msg = f"data command '{cmd_name}' is ambiguous: installed by {owners}"
            raise UsageError(msg)
        if not points:
            return None
        try:
            found = points[0].load()
        except Exception as exc:
            msg = f"data command '{cmd_name}' ({points[0].value}) cannot be loaded: {exc}"
            raise PluginError(msg) from exc
        return command_of(found, cmd_name)


def _points() -> list[importlib.metadata.EntryPoint]:
    return list(importlib.metadata.entry_points(group=GROUP))


app = typer.Typer(
    cls=_Installed, add_completion=False, rich_markup_mode=None, no_args_is_help=True
)


@app.callback()
def _about() -> None:
    """Check and prepare the raw data of an environment."""
