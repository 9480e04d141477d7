"""``ope-bench list``: list installed plugins and suites."""

from __future__ import annotations

from typing import Annotated

import typer

from ope_bench.cli.inventory import Kind, print_inventory
from ope_bench.console.output import Format, FormatOption

__all__ = ["command"]


def command(
    kind: Annotated[Kind | None, typer.Argument(help="Only this kind; all by default.")] = None,
    output: FormatOption = Format.TEXT,
) -> int:
    """List the environments, estimators and suites that are installed."""
    print_inventory(list(Kind) if kind is None else [kind], output)
    return 0
