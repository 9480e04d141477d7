"""``ope-bench list`` and ``show``: what is installed."""

from __future__ import annotations

from typing import Annotated

import typer

from ope_bench.base.console import Format, json_stdout, width, write
from ope_bench.base.errors import PluginError, UsageError, did_you_mean
from ope_bench.cli import catalog, options
from ope_bench.plugins.registry import GROUPS, registry

# ``ope-bench list``: list installed plugins and suites.


def list_command(
    kind: Annotated[
        catalog.Kind | None, typer.Argument(help="Only this kind; all by default.")
    ] = None,
    ids: Annotated[
        bool,
        typer.Option("--ids", help="Print ids only, estimators grouped by needed data."),
    ] = False,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """List environments, estimators and suites."""
    catalog.print_inventory(catalog.KINDS if kind is None else [kind], output, ids=ids)
    return 0


# ``ope-bench show``: describe a plugin or a suite.


def show_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="An id, a reference or a suite.")],
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print a suite's file, to be changed and run.")
    ] = False,
    no_code: options.NoCodeOption = False,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Describe an environment, an estimator or a suite.

    Prints its purpose, parameters and requirements.
    To describe a class in a file, or a suite that names one, runs that file; --no-code refuses.
    """

    from ope_bench.suites.suite import suite_files, suite_path

    if yaml:
        write(suite_path(name).read_text(encoding="utf-8").rstrip("\n"))
        return 0
    with json_stdout(output) as emit:
        found = [*catalog.describe_plugin(name), *catalog.describe_suite(name)]
        if not found:
            known = [plugin.id for kind in GROUPS for plugin in registry().plugins(kind)]
            known += [suite.id for suite in suite_files()] + [*registry().aliases]
            hint = did_you_mean(name, known) or "; `ope-bench list` lists all"
            msg = f"no plugin or suite is called '{name}'{hint}"
            raise (PluginError if ":" in name else UsageError)(msg)
        emit({"schema": 1, **found[0], "others": found[1:]})
    if output is Format.TEXT:
        write("\n\n".join(catalog.page(one, min(width(), 100)) for one in found))
    return 0
