"""Convert a function or a typer application to a command."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["command_of"]


def command_of(target: Any, name: str) -> Any:
    """Return the click command of that name."""
    if not isinstance(target, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(name)(target)
        target = application
    command = typer.main.get_command(target)
    command.name = name
    return command
