"""``ope-bench run``: from a suite to stored outcomes and leaderboards."""

from __future__ import annotations

import enum
import os
from dataclasses import replace
from typing import Annotated

import typer

from ope_bench.cli.options import (
    DEFAULT_STORE,
    LARGEST_SEED,
    EnvOption,
    EstOption,
    StoreOption,
    duration,
    option_error,
    shard_of,
    size,
)
from ope_bench.cli.output import Format, FormatOption, document, write

__all__ = ["available_cores", "run"]


class Where(enum.StrEnum):
    """Executors."""

    LOCAL = "local"
    INPROCESS = "inprocess"
    DASK = "dask"


class Device(enum.StrEnum):
    """Devices to cross estimators with."""

    CPU = "cpu"
    CUDA = "cuda"
    CPU_BATCH = "cpu-batch"
    CUDA_BATCH = "cuda-batch"
    ALL = "all"


class Again(enum.StrEnum):
    """Stored trials to run again."""

    FAILED = "failed"
    ALL = "all"


def run(
    suite: Annotated[
        str | None, typer.Argument(help="A shipped name or a file; 'quick' by default.")
    ] = None,
    env: EnvOption = None,
    est: EstOption = None,
    replicates: Annotated[int | None, typer.Option(min=1, help="Data sets a setting.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Of everything random.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trials side by side; the cores by default.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads a trial.")] = 1,
    executor: Annotated[Where, typer.Option(help="Where trials run.")] = Where.LOCAL,
    address: Annotated[str | None, typer.Option(help="Of the dask scheduler.")] = None,
    device: Annotated[
        Device | None,
        typer.Option(
            help="Devices to cross estimators with; 'all' is cpu and cuda. On the -batch kinds "
            "replicates are trained together, where an estimator can."
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="60s", help="For fit and estimate together.")
    ] = None,
    memory: Annotated[str | None, typer.Option(metavar="4GiB", help="A trial may use.")] = None,
    timing: Annotated[
        bool, typer.Option("--timing", help="Run all trials alone, so that times compare.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Only part I of N; `store merge` puts them together."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    retry: Annotated[Again | None, typer.Option(help="Run stored trials again.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and for how long.")
    ] = False,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit with 0 in spite of broken trials.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> int:
    """Run a suite, or what --env and --est name, and print its leaderboards.

    Stored outcomes are reused where the code that made them is current.
    """
    from ope_bench.cli.conduct import conduct, executor_for
    from ope_bench.cli.request import Request, check_modules, suite_of
    from ope_bench.manifest import plan

    if address is not None and executor is not Where.DASK:
        option, reason = "--address", "only --executor dask has an address"
        raise option_error(option, reason)
    request = Request(
        suite,
        env or (),
        est or (),
        replicates,
        seed,
        device.value if device else None,
        duration("--timeout", timeout),
        size("--memory", memory),
        timing,
    )
    part = shard_of(shard)
    again = retry.value if retry else None
    workers = 1 if executor is Where.INPROCESS else jobs or available_cores()
    with document(output) as emit:
        manifest = replace(plan(suite_of(request), threads=threads), shard=part)
        check_modules(manifest, request)
        if dry_run:
            from ope_bench.cli.dry_run import as_text, foresee

            told = foresee(manifest, store, workers, again)
            emit(told)
            if output is Format.TEXT:
                write(as_text(told))
            return int(told["exit_code"])
        report = conduct(
            manifest,
            store,
            executor_for(
                executor.value, workers if address is None else jobs, manifest, address=address
            ),
            retry=again,
            allow_failures=allow_failures,
            boards=output is Format.TEXT,
        )
        emit(report.as_json())
    if report.ending and report.ending.boards:
        write(report.boards())
    report.tell()
    return report.exit_code


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
