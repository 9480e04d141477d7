"""Output of the commands for a user's own log."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from ope_bench.cli.options import option_error
from ope_bench.console.output import note, use_color, width, write
from ope_bench.execution import Event, Finished
from ope_bench.logs.result import Estimates

__all__ = [
    "EstimateFormat",
    "EstimateFormatOption",
    "ReportOption",
    "check_report",
    "print_result",
    "tell_outcome",
]


class EstimateFormat(enum.StrEnum):
    """Output format of estimates."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


EstimateFormatOption = Annotated[
    EstimateFormat,
    typer.Option("--format", help="With json, stdout is exactly one JSON document."),
]


ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Also write a page that needs no network."),
]


def check_report(path: Path | None) -> None:
    """Refuse a report that could not be written, before anything runs.

    Raises
    ------
    UsageError : the extra ``report`` is not installed, or there is no such folder.
    """
    if path is None:
        return
    from ope_bench.report.requirements import needs_extra

    needs_extra()
    if not path.parent.is_dir():
        option, reason = "--report", f"{path.parent}: no such folder"
        raise option_error(option, reason)


def print_result(result: Estimates, output: EstimateFormat) -> None:
    """Print estimates; with json they are printed already, and only the notes follow."""
    from ope_bench.logs.result_tables import csv_table, tables
    from ope_bench.report.text.renderers.csv import render_csv
    from ope_bench.report.text.renderers.markdown import render_markdown
    from ope_bench.report.text.renderers.terminal import render_text

    if output is EstimateFormat.TEXT:
        shown = (
            render_text(table, width=width(), color=use_color()).rstrip()
            for table in tables(result)
        )
        write("\n\n".join(shown))
    elif output is EstimateFormat.MARKDOWN:
        write("\n".join(map(render_markdown, tables(result))).rstrip())
    else:
        if output is EstimateFormat.CSV:
            write(render_csv([csv_table(result)]).removesuffix("\n"))
        for line in result.notes:
            note(line)


def tell_outcome(event: Event) -> None:
    """Print how a trial on the log ended, as soon as it has."""
    if isinstance(event, Finished):
        record = event.record
        note(f"{record.trial.estimator.id}: {record.status.value}")
