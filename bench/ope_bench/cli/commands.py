"""A function or a typer application as a command of its own."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["command_of"]


def command_of(found: Any, name: str) -> Any:
    """What click calls by that name."""
    if not isinstance(found, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(name)(found)
        found = application
    command = typer.main.get_command(found)
    command.name = name
    return command
