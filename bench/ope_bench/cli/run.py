"""``ope-bench run``: run a suite, store outcomes and print leaderboards."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated, Any

import typer

from ope_bench.base import exit_codes
from ope_bench.base.console import Format, json_stdout, note, use_color, width, write
from ope_bench.base.errors import UsageError
from ope_bench.cli import options
from ope_bench.execution import Arithmetic
from ope_bench.execution.executors import EXECUTORS, ExecutorOptions
from ope_bench.trials.status import Retry


def _parse_shard(text: str) -> Any:
    from ope_bench.suites.manifest import parse_shard

    return parse_shard(text)


def run_command(
    suite: Annotated[
        str | None, typer.Argument(help="A shipped name or a file; 'quick' by default.")
    ] = None,
    env: options.EnvOption = None,
    est: options.EstOption = None,
    changes: options.SetOption = None,
    replicates: options.ReplicatesOption = None,
    seed: options.SeedOption = None,
    jobs: options.JobsOption = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each trial.")] = 1,
    executor: Annotated[str, options.one_of(EXECUTORS, help="Where trials run.")] = next(
        iter(EXECUTORS)
    ),
    address: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
    arithmetic: Annotated[
        Arithmetic | None,
        typer.Option(
            help="Kernels of worker processes: the same bits on every x86-64 machine with AVX2, "
            "or what the libraries choose for this processor.",
            show_default="portable, where it computes right",
        ),
    ] = None,
    device: options.DeviceOption = None,
    timeout: options.TimeoutOption = None,
    memory: options.MemoryOption = None,
    timing: Annotated[
        bool, typer.Option("--timing", help="Run all trials alone, for comparable times.")
    ] = False,
    shard: Annotated[
        Any,
        typer.Option(
            parser=options.parser_of(_parse_shard),
            metavar="I/N",
            help="Only part I of N; `store merge` joins the parts.",
        ),
    ] = None,
    sealed: Annotated[
        bool,
        typer.Option(
            "--sealed", help="Run estimators of other packages where they see their data alone."
        ),
    ] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    retry: Annotated[Retry | None, typer.Option(help="Run stored trials again.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run and for how long.")
    ] = False,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit with 0 in spite of broken trials.")
    ] = False,
    no_code: options.NoCodeOption = False,
    boards: options.BoardsOption = False,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Run a suite, or named plugins, and print leaderboards.

    Stored outcomes are reused if their code has not changed. A suite that names classes in files
    runs these files when it is read, with --dry-run as well; --no-code refuses that.
    """
    from ope_bench.cli import session
    from ope_bench.execution.local import foreign_code_apart
    from ope_bench.execution.machine import available_cores
    from ope_bench.report.boards import render_findings, render_result
    from ope_bench.suites.manifest import plan

    kind = EXECUTORS[executor]
    if address is not None and "--address" not in kind.options:
        names = " or ".join(name for name, one in EXECUTORS.items() if "--address" in one.options)
        msg = f"--address: only --executor {names} accepts it"
        raise UsageError(msg)
    if sealed and "--address" in kind.options:
        msg = f"--sealed: not with --executor {executor}, whose workers are elsewhere"
        raise UsageError(msg)
    settings = {
        "replicates": replicates,
        "seed": seed,
        "device": device,
        "timeout": timeout,
        "memory": memory,
        "timing": timing or None,
    }
    workers = jobs or available_cores() if "--jobs" in kind.options else 1
    hidden = [store.parent / f"{store.name}{end}" for end in ("", "-wal", "-shm")]
    apart = foreign_code_apart(hidden=hidden, threads=threads, arithmetic=arithmetic, worlds=True)
    with json_stdout(output) as emit, apart if sealed else nullcontext() as foreign:
        if foreign is not None and foreign.missing:
            note(f"--sealed: {foreign.missing}; estimators of others run as without it")
        asked = session.suite_of(suite, env, est, changes, settings)
        manifest = replace(plan(asked, threads=threads), shard=shard)
        session.check_modules(manifest, [*(env or ()), *(est or ())])
        if address is None:  # a cluster's machines may have files that this one lacks
            session.check_data_files(manifest)
        if dry_run:
            facts = session.summarize_plan(manifest, store, workers, retry)
            emit(facts)
            if output is Format.TEXT:
                write(session.plan_text(facts))
            return exit_codes.CLEAN if facts["planned"] else exit_codes.EMPTY
        executor_options = ExecutorOptions(
            plugins=manifest.plugins() if manifest.trials else (),
            jobs=workers if address is None else jobs,
            threads=manifest.threads,
            timeout=manifest.suite.timeout,
            memory=manifest.suite.memory,
            address=address,
            arithmetic=arithmetic,
            foreign=foreign,
        )
        report = session.run_session(
            manifest,
            store,
            kind.create(executor_options),
            retry=retry,
            allow_failures=allow_failures,
            boards=output is Format.TEXT,
        )
        emit(report.as_json())
    if found := report.ending.boards:
        write(
            render_result(
                found, width=width(), color=use_color(), every_board=boards, conclude=False
            )
        )
    report.print_summary()
    if sentences := render_findings(found, width=width()):
        write(f"\n{sentences}")
    return report.exit_code
