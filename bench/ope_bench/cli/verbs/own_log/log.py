"""``ope-bench log``: check a user's own log, or write an example of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ope_bench.cli.options import NoCodeOption, TimeoutOption, duration
from ope_bench.cli.signals import exit_on_signals
from ope_bench.cli.verbs.own_log import advise, estimate
from ope_bench.console.output import (
    Format,
    FormatOption,
    document,
    note,
    use_color,
    width,
    write,
)

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check a log of your own, or write an example of one.",
)


@app.callback()
def _about() -> None:
    """Check a log of your own, or write an example of one."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A log file (.yaml).")],
    timeout: TimeoutOption = None,
    no_code: NoCodeOption = False,
    output: FormatOption = Format.TEXT,
) -> int:
    """Say what is in a log, what is wrong with it, and which estimators can use it."""
    from ope_bench.logs.log import Log
    from ope_bench.report.text.renderers.terminal import render_text

    with exit_on_signals(), document(output) as emit:
        result = Log.read(file, timeout=duration("--timeout", timeout)).check()
        emit(result.as_json())
    if output is Format.TEXT:
        shown = (
            render_text(table, width=width(), color=use_color()).rstrip()
            for table in result.tables()
        )
        write("\n\n".join(shown))
    return 0


@app.command()
def example(
    folder: Annotated[Path, typer.Argument(help="A folder, made if it is not there.")],
) -> int:
    """Write an invented log of 5,000 decisions, with its log file, items and new policy."""
    from ope_bench.logs.example import write_example

    for path in write_example(folder):
        note(f"wrote {path}")
    note(f"next    ope-bench log check {folder / 'shop.yaml'}")
    note(f"then    ope-bench estimate {folder / 'shop.yaml'}")
    note(f"and     ope-bench advise {folder / 'shop.yaml'}")
    return 0


app.command("estimate")(estimate.command)
app.command("advise")(advise.command)
