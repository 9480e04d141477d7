"""``ope-bench estimate``: the value of a new policy, from a log."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from ope_bench.cli.options import (
    EstOption,
    MemoryOption,
    NoCodeOption,
    SeedOption,
    TimeoutOption,
    duration,
    size,
)
from ope_bench.cli.signals import exit_on_signals
from ope_bench.cli.verbs.own_log.log_options import (
    ActionOption,
    CategoricalOption,
    ContextOption,
    FileArgument,
    ItemsOption,
    PropensityOption,
    QuickLook,
    RewardOption,
    TargetActionOption,
    TargetPolicyOption,
    TargetProbabilityOption,
    TargetTableOption,
    UnitOption,
    spec_of_command,
)
from ope_bench.cli.verbs.own_log.output import (
    EstimateFormat,
    EstimateFormatOption,
    ReportOption,
    check_report,
    print_result,
    tell_outcome,
)
from ope_bench.console.output import Format, document, note

__all__ = ["command"]


def command(
    file: FileArgument,
    est: EstOption = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    interval: Annotated[
        str,
        typer.Option(
            metavar="<asymptotic|empirical-likelihood|guaranteed|bootstrap>",
            help="Kind of the intervals; the output says which estimators do not offer it.",
        ),
    ] = "asymptotic",
    context: ContextOption = None,
    action: ActionOption = None,
    reward: RewardOption = None,
    propensity: PropensityOption = None,
    items: ItemsOption = None,
    unit: UnitOption = None,
    categorical: CategoricalOption = None,
    target_action: TargetActionOption = None,
    target_probability: TargetProbabilityOption = None,
    target_table: TargetTableOption = None,
    target_policy: TargetPolicyOption = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the log file of these options.")
    ] = None,
    report: ReportOption = None,
    seed: SeedOption = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Trials that run at once; by default one for each core."),
    ] = None,
    timeout: TimeoutOption = None,
    memory: MemoryOption = None,
    no_code: NoCodeOption = False,
    output: EstimateFormatOption = EstimateFormat.TEXT,
) -> int:
    """Estimate what a new policy would have earned, from a log of another one.

    FILE is a log file, or a table with --context, --action, --reward and one --target option.
    Without --est all estimators run that can and are meant for it. Exit code 3: none has a value.
    """
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.execution.machine import available_cores
    from ope_bench.logs.estimation import estimate
    from ope_bench.logs.log import Log
    from ope_bench.logs.page.render import estimates_page, write_page
    from ope_bench.logs.reading.log_file import write_log_file

    options = {
        "context": context,
        "action": action,
        "reward": reward,
        "propensity": propensity,
        "items": items,
        "unit": unit,
        "categorical": categorical,
        "target-action": target_action,
        "target-probability": target_probability,
        "target-table": target_table,
        "target-policy": target_policy,
    }
    limit, most_memory = duration("--timeout", timeout), size("--memory", memory)
    check_report(report)
    written = Format.JSON if output is EstimateFormat.JSON else Format.TEXT
    with exit_on_signals(), document(written) as emit:
        spec = spec_of_command(file, QuickLook(**options))
        if save is not None:
            write_log_file(spec, save)
            note(f"wrote {save}")
        log = Log.of(spec, timeout=limit)
        executor = LocalExecutor(jobs or available_cores(), timeout=limit, memory=most_memory)
        with contextlib.closing(executor):
            result = estimate(
                log,
                est,
                level=level,
                interval=interval,  # type: ignore[arg-type]  # checked by `estimate`
                seed=seed or 0,
                executor=executor,
                on_event=tell_outcome if sys.stderr.isatty() else lambda event: None,
            )
        if report is not None:
            write_page(report, estimates_page(log, result))
            note(f"wrote {report}")
        emit(result.as_json())
    print_result(result, output)
    return result.exit_code
