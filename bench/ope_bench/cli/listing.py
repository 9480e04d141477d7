"""``ope-bench list`` and ``ope-bench show``: what there is, and what each thing is."""

from __future__ import annotations

from typing import Annotated

import typer

from ope_bench.cli.inventory import Sort, print_inventory
from ope_bench.cli.output import Format, FormatOption, document, width, write

__all__ = ["list_", "show"]


def list_(
    sort: Annotated[Sort | None, typer.Argument(help="Only this; all by default.")] = None,
    output: FormatOption = Format.TEXT,
) -> int:
    """List the environments, estimators and suites that are installed."""
    print_inventory(list(Sort) if sort is None else [sort], output)
    return 0


def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="An id, a reference or a suite.")],
    output: FormatOption = Format.TEXT,
) -> int:
    """Show an environment, an estimator or a suite: what it does, takes and needs."""
    from ope_bench.cli.description import describe_plugin, describe_suite, page
    from ope_bench.errors import PluginError, UsageError, did_you_mean

    with document(output) as emit:
        found = [*describe_plugin(name), *describe_suite(name)]
        if not found:
            from ope_bench.catalogue import suite_files
            from ope_bench.registry import GROUPS, registry

            known = [plugin.id for kind in GROUPS for plugin in registry().plugins(kind)]
            known += [suite.id for suite in suite_files()]
            hint = did_you_mean(name, known) or "; `ope-bench list` shows what there is"
            msg = f"nothing is called '{name}'{hint}"
            raise (PluginError if ":" in name else UsageError)(msg)
        emit({"schema": 1, **found[0], "others": found[1:]})
    if output is Format.TEXT:
        write("\n\n".join(page(one, min(width(), 100)) for one in found))
    return 0
