"""The option ``--format`` and the functions with which every command prints."""

from __future__ import annotations

from typing import Annotated

import typer

from ope_bench.console.streams import Format, document, note, use_color, width, write

__all__ = ["Format", "FormatOption", "document", "note", "use_color", "width", "write"]

FormatOption = Annotated[
    Format, typer.Option("--format", help="With json, stdout is exactly one JSON document.")
]
