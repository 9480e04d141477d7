"""Execute a plan and report on it."""

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
from ope_bench.cli.running.progress import progress_for
from ope_bench.cli.running.run_summary import RunSummary
from ope_bench.cli.running.unplanned import unplanned, why_empty
from ope_bench.console.output import note, use_color, width
from ope_bench.errors import UsageError
from ope_bench.execution import Executor
from ope_bench.execution.machine import machine_facts
from ope_bench.execution.runner import Outcome, run
from ope_bench.report.text.result import render_result
from ope_bench.store import Store
from ope_bench.suites.manifest import Manifest
from ope_bench.trials.status import Retry, Status
from ope_bench.units import format_duration

__all__ = ["Report", "run_session"]

FAILURES_SHOWN = 5
MESSAGE_SHOWN = 400


@dataclass(frozen=True, kw_only=True)
class Report:
    """The report of a run.

    Parameters
    ----------
    manifest : the plan.
    store : path of the store.
    outcome : counts of trials.
    exit_code, reason : exit code and its reason.
    ending : summary of the run's records, reused ones included; None if nothing was run.
    """

    manifest: Manifest
    store: Path
    outcome: Outcome
    exit_code: int
    reason: str
    ending: RunSummary | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``run --format json``."""
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

    def boards(self, *, every_board: bool = False) -> str:
        """Format the result: the boards of a single setting, or of all on request."""
        found = self.ending.boards if self.ending else []
        return render_result(found, width=width(), color=use_color(), every_board=every_board)

    def print_summary(self) -> None:
        """Print the last lines to stderr: failures, counts, store, exit code."""
        outcome = self.outcome
        for line in filter(None, (unplanned(self.manifest), *self._failures(), *self._notes())):
            note(line)
        counts = ", ".join(f"{n} {word.value}" for word, n in outcome.status.items() if n)
        note(
            f"trials  {outcome.planned} planned, {outcome.reused} reused, {outcome.executed} run "
            f"in {format_duration(outcome.seconds)}" + (f": {counts}" if counts else "")
        )
        note(f"store   {self.store}")
        for options in self._more():
            note(f"also    ope-bench leaderboard {options}{self._store_option()}")
        note(f"exit    {self.exit_code}: {self.reason}")

    def _more(self) -> list[str]:
        """Return options of ``leaderboard`` for what the result leaves out."""
        if self.ending is None:
            return []
        several = sum(board.by == "rmse" for board in self.ending.boards) > 1
        return ["--boards"] * several + [f"--by {by}" for by in self.ending.questions[1:]]

    def _notes(self) -> list[str]:
        """One line for each way in which an estimator changed its process, by frequency."""
        found = self.ending.notes.most_common() if self.ending else []
        lines = [
            f"note      {count} x {name} {text[:200]}; no other trial saw that"
            for (name, text), count in found[:FAILURES_SHOWN]
        ]
        if len(found) > FAILURES_SHOWN:
            lines.append(f"          and {len(found) - FAILURES_SHOWN} more such notes")
        return lines

    def _store_option(self) -> str:
        """Return the option ``--store`` for later commands, empty for the default store."""
        given = os.environ.get("OPE_BENCH_STORE", "ope-bench.sqlite")
        return "" if str(self.store) == given else f" --store {shlex.quote(str(self.store))}"

    def _failures(self) -> list[str]:
        """Print a line for each kind of failure of an estimator, most frequent first."""
        kinds = self.ending.failures if self.ending else {}
        found = sorted(kinds.items(), key=lambda one: -one[1].count)
        lines = []
        for (name, status, _), some in found[:FAILURES_SHOWN]:
            lines.append(
                f"{status.value:<9} {some.count} x {name}: {some.message[:MESSAGE_SHOWN]}"
            )
            if status.broken:
                again = f"ope-bench rerun {some.key[:12]}{self._store_option()}"
                lines.append(f"          reproduce:    {again}")
        if len(found) > FAILURES_SHOWN:
            lines.append(f"          and {len(found) - FAILURES_SHOWN} more kinds of failure")
        return lines


def run_session(
    manifest: Manifest,
    path: Path,
    executor: Executor,
    *,
    retry: Retry | None = None,
    allow_failures: bool = False,
    boards: bool = True,
) -> Report:
    """Run a plan and store its outcomes; an empty plan changes nothing.

    Parameters
    ----------
    manifest : the plan.
    path : of the store.
    executor : executor of the trials; closed at the end.
    retry : run stored failures, or all stored trials, again.
    allow_failures : exit with 0 in spite of broken trials.
    boards : whether the report contains boards.
    """
    trials = manifest.trials
    outcome = Outcome(planned=len(trials))
    if not trials:
        return Report(
            manifest=manifest,
            store=path,
            outcome=outcome,
            exit_code=exit_codes.EMPTY,
            reason=why_empty(manifest),
        )
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
        except UsageError:
            store.end_run(run_id, exit_codes.USAGE)
            raise
        outcome.seconds = time.monotonic() - began
        code = outcome.exit_code(allow_failures=allow_failures)
        store.end_run(run_id, code)
        ending = RunSummary.of(store, run_id, manifest.suite.truth, boards=boards)
    return Report(
        manifest=manifest,
        store=path,
        outcome=outcome,
        exit_code=code,
        reason=exit_codes.reason(outcome, code),
        ending=ending,
    )


def _cluster(executor: Executor) -> dict[str, Any]:
    """Return the machines of a cluster's workers, as far as known."""
    machines = getattr(executor, "machines", None)
    return {"cluster": machines} if machines else {}
