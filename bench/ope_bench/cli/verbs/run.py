"""``ope-bench run``: run a suite, store outcomes and print leaderboards."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ope_bench.cli.options import (
    DEFAULT_STORE,
    DEVICES,
    BoardsOption,
    DeviceOption,
    EnvOption,
    EstOption,
    MemoryOption,
    NoCodeOption,
    ReplicatesOption,
    SeedOption,
    SetOption,
    StoreOption,
    TimeoutOption,
    duration,
    one_of,
    option_error,
    shard_of,
    size,
)
from ope_bench.console.output import Format, FormatOption, document, write
from ope_bench.execution.executors import EXECUTORS, ExecutorOptions
from ope_bench.trials.status import Retry

__all__ = ["command"]


def command(
    suite: Annotated[
        str | None, typer.Argument(help="A shipped name or a file; 'quick' by default.")
    ] = None,
    env: EnvOption = None,
    est: EstOption = None,
    changes: SetOption = None,
    replicates: ReplicatesOption = None,
    seed: SeedOption = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Trials that run at once; by default one for each core."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each trial.")] = 1,
    executor: Annotated[str, one_of(EXECUTORS, help="Where trials run.")] = next(iter(EXECUTORS)),
    address: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
    device: DeviceOption = None,
    timeout: TimeoutOption = None,
    memory: MemoryOption = None,
    timing: Annotated[
        bool, typer.Option("--timing", help="Run all trials alone, for comparable times.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Only part I of N; `store merge` joins the parts."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    retry: Annotated[Retry | None, typer.Option(help="Run stored trials again.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run and for how long.")
    ] = False,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit with 0 in spite of broken trials.")
    ] = False,
    no_code: NoCodeOption = False,
    boards: BoardsOption = False,
    output: FormatOption = Format.TEXT,
) -> int:
    """Run a suite, or the plugins of --env and --est, and print leaderboards.

    Stored outcomes are reused if their code has not changed. A suite that names classes in files
    runs these files when it is read, with --dry-run as well; --no-code refuses that.
    """
    from ope_bench.cli.running.request import Request, check_data_files, check_modules, suite_of
    from ope_bench.execution.machine import available_cores
    from ope_bench.suites.manifest import plan

    kind = EXECUTORS[executor]
    if address is not None and "--address" not in kind.options:
        names = " or ".join(name for name, one in EXECUTORS.items() if "--address" in one.options)
        option, reason = "--address", f"only --executor {names} accepts it"
        raise option_error(option, reason)
    request = Request(
        suite=suite,
        environments=env or (),
        estimators=est or (),
        replicates=replicates,
        seed=seed,
        devices=None if device is None else DEVICES[device],
        timeout=duration("--timeout", timeout),
        memory=size("--memory", memory),
        timing=timing,
        changes=changes or (),
    )
    part = shard_of(shard)
    workers = jobs or available_cores() if "--jobs" in kind.options else 1
    with document(output) as emit:
        manifest = replace(plan(suite_of(request), threads=threads), shard=part)
        check_modules(manifest, request)
        if address is None:  # a cluster's machines may have files that this one lacks
            check_data_files(manifest)
        if dry_run:
            from ope_bench.cli.running.dry_run import plan_summary

            summary = plan_summary(manifest, store, workers, retry)
            emit(summary.as_json())
            if output is Format.TEXT:
                write(summary.as_text())
            return summary.exit_code
        # Imported here: boards and their rendering take a tenth of a second, and only a run needs
        # them.
        from ope_bench.cli.running.session import run_session

        options = ExecutorOptions(
            plugins=manifest.plugins() if manifest.trials else (),
            jobs=workers if address is None else jobs,
            threads=manifest.threads,
            timeout=manifest.suite.timeout,
            memory=manifest.suite.memory,
            address=address,
        )
        report = run_session(
            manifest,
            store,
            kind.create(options),
            retry=retry,
            allow_failures=allow_failures,
            boards=output is Format.TEXT,
        )
        emit(report.as_json())
    if report.ending and report.ending.boards:
        write(report.boards(every_board=boards))
    report.print_summary()
    return report.exit_code
