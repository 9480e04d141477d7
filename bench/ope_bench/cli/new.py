"""``ope-bench new``: a plugin package to start from."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from ope_bench.cli.output import Format, FormatOption, document, write

__all__ = ["new"]


class Sort(enum.StrEnum):
    """What can be made."""

    ESTIMATOR = "estimator"
    ENVIRONMENT = "environment"


def new(
    sort: Annotated[Sort, typer.Argument(help="What to make.")],
    name: Annotated[str, typer.Argument(help="Its id, for example my-ipw.")],
    into: Annotated[
        Path, typer.Option("--into", help="The folder in which NAME is made.")
    ] = Path(),
    output: FormatOption = Format.TEXT,
) -> int:
    """Write a small installable package with a working example.

    It holds the class, a test with the conformance checks, a suite, a workflow and a README.
    """
    from ope_bench.scaffold import names_for, write_package

    with document(output) as emit:
        names = names_for(sort.value, name)
        files = write_package(names, into)
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
