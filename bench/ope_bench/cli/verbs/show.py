"""``ope-bench show``: describe a plugin or a suite."""

from __future__ import annotations

from typing import Annotated

import typer

from ope_bench.cli.options import NoCodeOption
from ope_bench.console.output import Format, FormatOption, document, width, write

__all__ = ["command"]


def command(
    name: Annotated[str, typer.Argument(metavar="ID", help="An id, a reference or a suite.")],
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print a suite's file, to be changed and run.")
    ] = False,
    no_code: NoCodeOption = False,
    output: FormatOption = Format.TEXT,
) -> int:
    """Show an environment, an estimator or a suite: purpose, parameters and requirements.

    To describe a class in a file, or a suite that names one, runs that file; --no-code refuses.
    """
    from ope_bench.cli.description import describe_plugin, describe_suite, page
    from ope_bench.errors import PluginError, UsageError, did_you_mean

    if yaml:
        from ope_bench.suites.discovery import suite_path

        write(suite_path(name).read_text(encoding="utf-8").rstrip("\n"))
        return 0
    with document(output) as emit:
        found = [*describe_plugin(name), *describe_suite(name)]
        if not found:
            from ope_bench.plugins.registry import GROUPS, registry
            from ope_bench.suites.discovery import suite_files

            known = [plugin.id for kind in GROUPS for plugin in registry().plugins(kind)]
            known += [suite.id for suite in suite_files()]
            hint = did_you_mean(name, known) or "; `ope-bench list` lists all"
            msg = f"no plugin or suite is called '{name}'{hint}"
            raise (PluginError if ":" in name else UsageError)(msg)
        emit({"schema": 1, **found[0], "others": found[1:]})
    if output is Format.TEXT:
        write("\n\n".join(page(one, min(width(), 100)) for one in found))
    return 0
