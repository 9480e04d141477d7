"""What every verb prints with, and its option ``--format``."""

from __future__ import annotations

from typing import Annotated

import typer

from ope_bench.cli.streams import Format, document, note, plain, use_colour, width, write

__all__ = ["Format", "FormatOption", "document", "note", "plain", "use_colour", "width", "write"]

FormatOption = Annotated[
    Format, typer.Option("--format", help="With json, stdout is exactly one JSON document.")
]
