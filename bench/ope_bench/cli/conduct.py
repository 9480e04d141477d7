"""A run from plan to report: store, executor, progress, boards, and why it exits as it does."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ope_bench.cli import exit_codes
from ope_bench.cli.ending import Ending
from ope_bench.cli.omissions import left_out, why_empty
from ope_bench.cli.output import note, use_colour, width
from ope_bench.cli.progress import progress_for
from ope_bench.execution import Executor
from ope_bench.machine import machine_facts
from ope_bench.manifest import Manifest
from ope_bench.quantities import format_duration
from ope_bench.records import Status
from ope_bench.report import render
from ope_bench.report.overview import render_overview
from ope_bench.runner import Outcome, run
from ope_bench.store import Store

__all__ = ["Report", "conduct", "executor_for"]

FAILURES_SHOWN = 5


@dataclass(frozen=True)
class Report:
    """What came of a run.

    Parameters
    ----------
    manifest : what was asked.
    store : the path.
    outcome : the counts.
    exit_code, reason : how it ends and why.
    ending : what the records of the run say, reused ones included; None if nothing was run.
    """

    manifest: Manifest
    store: Path
    outcome: Outcome
    exit_code: int
    reason: str
    ending: Ending | None = None

    def as_json(self) -> dict[str, Any]:
        """What ``run --format json`` prints."""
        outcome = self.outcome
        return {
            "schema": 1,
            "suite": self.manifest.suite.name,
            "shard": str(self.manifest.shard) if self.manifest.shard else None,
            "store": str(self.store),
            "planned": outcome.planned,
            "reused": outcome.reused,
            "executed": outcome.executed,
            "status": {word.value: outcome.status[word] for word in Status},
            "seconds": round(outcome.seconds, 3),
            "exit_code": self.exit_code,
            "reason": self.reason,
        }

    def boards(self) -> str:
        """The leaderboards."""
        found = self.ending.boards if self.ending else []
        by_rmse = [board for board in found if board.by == "rmse"]
        text = render(found, width=width(), colour=use_colour()).rstrip()
        if len(by_rmse) > 1:
            text += f"\n\n{render_overview(by_rmse, width=width())}"
        return text

    def tell(self) -> None:
        """The last lines on stderr: failures, counts, store, exit code."""
        outcome = self.outcome
        for line in filter(None, (left_out(self.manifest), *self._failures())):
            note(line)
        counts = ", ".join(f"{n} {word.value}" for word, n in outcome.status.items() if n)
        note(
            f"trials  {outcome.planned} planned, {outcome.reused} reused, {outcome.executed} run "
            f"in {format_duration(outcome.seconds)}" + (f": {counts}" if counts else "")
        )
        note(f"store   {self.store}")
        for by in self.ending.questions[1:] if self.ending else ():
            note(f"also    ope-bench leaderboard --by {by}{self._place()}")
        note(f"exit    {self.exit_code}: {self.reason}")

    def _place(self) -> str:
        """The option that names the store, where a later command would not find it."""
        given = os.environ.get("OPE_BENCH_STORE", "ope-bench.sqlite")
        return "" if str(self.store) == given else f" --store {shlex.quote(str(self.store))}"

    def _failures(self) -> list[str]:
        """One line for each way in which an estimator broke or could not run, by frequency."""
        kinds = self.ending.failures if self.ending else {}
        found = sorted(kinds.items(), key=lambda one: -one[1].count)
        lines = []
        for (name, status, _), some in found[:FAILURES_SHOWN]:
            lines.append(f"{status.value:<9} {some.count} x {name}: {some.message[:200]}")
            if status.broken:
                again = f"ope-bench rerun {some.key[:12]}{self._place()}"
                lines.append(f"          see it again: {again}")
        if len(found) > FAILURES_SHOWN:
            lines.append(f"          and {len(found) - FAILURES_SHOWN} more such kinds")
        return lines


def conduct(
    manifest: Manifest,
    path: Path,
    executor: Executor,
    *,
    retry: Any = None,
    allow_failures: bool = False,
    boards: bool = True,
) -> Report:
    """Run the plan into the store; an empty plan touches nothing.

    Parameters
    ----------
    manifest : what to run.
    path : of the store.
    executor : where to run; closed at the end.
    retry : run stored failures, or everything, again.
    allow_failures : broken trials do not make the exit code 3.
    boards : whether the report is to have them.
    """
    trials = manifest.trials
    outcome = Outcome(planned=len(trials))
    if not trials:
        return Report(manifest, path, outcome, exit_codes.EMPTY, why_empty(manifest))
    began = time.monotonic()
    with contextlib.closing(executor), Store.open(path, write=True) as store:
        run_id = store.begin_run(
            suite=manifest.suite.name,
            truth=manifest.suite.truth,
            command=shlex.join(["ope-bench", *sys.argv[1:]]),
            planned=len(trials),
            machine=machine_facts() | _cluster(executor),
        )
        try:
            with progress_for(manifest, executor.jobs) as progress:
                for event in run(
                    trials,
                    store=store,
                    run_id=run_id,
                    executor=executor,
                    outcome=outcome,
                    exclusive=manifest.exclusive,
                    retry=retry,
                ):
                    progress.handle(event)
        except KeyboardInterrupt:
            outcome.interrupted = True
        outcome.seconds = time.monotonic() - began
        code = outcome.exit_code(allow_failures=allow_failures)
        store.end_run(run_id, code)
        ending = Ending.of(store, run_id, manifest.suite.truth, boards=boards)
    reason = exit_codes.reason(outcome, code)
    return Report(manifest, path, outcome, code, reason, ending)


def _cluster(executor: Executor) -> dict[str, Any]:
    """The machines that a cluster's workers run on, where they are known by now."""
    machines = getattr(executor, "machines", None)
    return {"cluster": machines} if machines else {}


def executor_for(
    where: str, jobs: int | None, manifest: Manifest, *, address: str | None = None
) -> Executor:
    """The executor of that name, with the suite's limits.

    Parameters
    ----------
    where : its name.
    jobs : slots, None for as many as there are.
    manifest : what to run.
    address : of a Dask scheduler; its workers are examined at once.

    Raises
    ------
    UsageError : what the executor needs is missing, or workers are not as this process is.
    """
    suite = manifest.suite
    if where == "inprocess":
        from ope_bench.execution.inprocess import InProcessExecutor

        return InProcessExecutor(threads=manifest.threads)
    if where == "dask":
        from ope_bench.execution.cluster.executor import DaskExecutor

        executor = DaskExecutor(
            manifest.plugins(),
            address=address,
            jobs=jobs,
            threads=manifest.threads,
            timeout=suite.timeout,
            memory=suite.memory,
        )
        if manifest.trials and address is not None:
            executor.connect()
        return executor
    from ope_bench.execution.local import LocalExecutor

    return LocalExecutor(
        jobs or 1, threads=manifest.threads, timeout=suite.timeout, memory=suite.memory
    )
