"""``ope-bench new``: write a new plugin package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ope_bench.console.output import Format, FormatOption, document, write
from ope_bench.plugins.registry import Kind

__all__ = ["command"]


def command(
    kind: Annotated[Kind, typer.Argument(help="Kind of plugin.")],
    name: Annotated[str, typer.Argument(help="Its id, for example my-ipw.")],
    into: Annotated[
        Path, typer.Option("--into", help="The folder in which NAME is created.")
    ] = Path(),
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="./MY.py:CLASS", help="Copy this class into the package."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> int:
    """Write a small installable package with a working example, or with a class of yours.

    It contains the class, a test with the conformance checks, a suite, a workflow and a README.
    """
    from ope_bench.scaffold import names_for, read_source, write_package

    with document(output) as emit:
        copied = read_source(kind, source) if source is not None else None
        names = names_for(kind, name, copied.cls if copied else "")
        files = write_package(names, into, copied)
        emit(
            {
                "schema": 1,
                "kind": names.kind,
                "id": names.id,
                "package": names.package,
                "class": names.cls,
                "path": str(into / names.id),
                "files": [str(path) for path in files],
            }
        )
    if output is Format.TEXT:
        folder = into / names.id
        write("\n".join(map(str, files)))
        write(f"\nNext: pip install -e {folder} && ope-bench check {names.id}")
    return 0
