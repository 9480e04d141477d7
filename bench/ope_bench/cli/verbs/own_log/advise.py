"""``ope-bench advise``: whether a log can answer, by which estimator, how wrong."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ope_bench.cli.options import (
    EstOption,
    MemoryOption,
    NoCodeOption,
    ReplicatesOption,
    TimeoutOption,
    duration,
    size,
)
from ope_bench.cli.signals import exit_on_signals
from ope_bench.cli.verbs.own_log.output import ReportOption, check_report, tell_outcome
from ope_bench.console.output import Format, FormatOption, document, note, use_color, width, write
from ope_bench.trials.record import Trial

if TYPE_CHECKING:
    from ope_bench.cli.running.progress import LiveProgress, PlainProgress

__all__ = ["command"]

BUDGET = "5m"


def command(
    file: Annotated[Path, typer.Argument(help="A log file (.yaml).")],
    target: Annotated[
        str | None, typer.Option(help="The policy, where the log file has several.")
    ] = None,
    worlds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MAKER",
            help="pseudo-reward, redrawn or resample, with parameters as of an environment; "
            "all by default.",
        ),
    ] = None,
    replicates: ReplicatesOption = None,
    budget: Annotated[
        str, typer.Option(metavar="5m", help="Longest time for the worlds made from the log.")
    ] = BUDGET,
    est: EstOption = None,
    report: ReportOption = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Trials that run at once; by default one for each core."),
    ] = None,
    timeout: TimeoutOption = None,
    memory: MemoryOption = None,
    no_code: NoCodeOption = False,
    output: FormatOption = Format.TEXT,
) -> int:
    """Say whether a log can answer what a new policy would earn, and by which estimator.

    The verdict is trust, caution or run-an-experiment. Candidates are compared on worlds made from
    the log, whose true values are known. Exit code 3: no candidate has a value.
    """
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.execution.machine import available_cores
    from ope_bench.logs.advice.advice_tables import advice_tables
    from ope_bench.logs.advice.advise import advise
    from ope_bench.logs.log import Log
    from ope_bench.logs.page.render import advice_page, write_page
    from ope_bench.report.text.renderers.terminal import render_text

    longest = duration("--budget", budget)
    limit, most_memory = duration("--timeout", timeout), size("--memory", memory)
    check_report(report)
    with exit_on_signals(), document(output) as emit:
        log = Log.read(file, timeout=limit)
        executor = LocalExecutor(jobs or available_cores(), timeout=limit, memory=most_memory)
        with contextlib.closing(executor):
            result = advise(
                log,
                target=target,
                worlds=worlds,
                replicates=replicates,
                budget=longest,
                candidates=est,
                executor=executor,
                on_event=tell_outcome if sys.stderr.isatty() else lambda event: None,
                observe=lambda trials: _progress(trials, executor.jobs),
            )
        if report is not None:
            write_page(report, advice_page(log, result))
            note(f"wrote {report}")
        emit(result.as_json())
    if output is Format.TEXT:
        shown = (
            render_text(table, width=width(), color=use_color()).rstrip()
            for table in advice_tables(result)
        )
        write("\n\n".join(shown))
    return result.exit_code


def _progress(trials: Sequence[Trial], jobs: int) -> LiveProgress | PlainProgress:
    from ope_bench.cli.running.progress import Watch, display

    return display(Watch(trials, "expected", jobs), "worlds made from the log")
