"""Run a gate's trials through the runner, into a store."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ope_bench.execution import Executor, Finished, Reused, RunEvent
from ope_bench.execution.runner import Outcome, interruptible, run
from ope_bench.gate.baseline import Baseline
from ope_bench.gate.timing import comparable_machines
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Retry

__all__ = ["ExecutorOf", "StoreTrials"]

ExecutorOf = Callable[[float | None, int | None], Executor]
"""Makes an executor with a timeout (seconds) and a memory limit (bytes)."""


class StoreTrials:
    """Runs trials into a store.

    A stored outcome does not show the effect of a changed environment variable, data file or C
    library, which no code digest covers. So stored outcomes are reused only on request.

    Parameters
    ----------
    baseline : gives the limits of a trial.
    store : a store open for writing.
    executor_of : makes executors.
    machine : facts of this machine, see `machine_facts`.
    watch : called with every event.
    reuse : use stored outcomes of the current code instead of running their trials.

    Attributes
    ----------
    unfinished : number of trials of the current or last run without an outcome; None before any
        run.
    reused : number of stored outcomes used so far.
    """

    def __init__(
        self,
        baseline: Baseline,
        store: Store,
        executor_of: ExecutorOf,
        machine: Mapping[str, Any],
        watch: Callable[[RunEvent], None] = lambda event: None,
        *,
        reuse: bool = False,
    ) -> None:
        self._baseline = baseline
        self._store = store
        self._executor_of = executor_of
        self._machine = machine
        self._watch = watch
        self._retry: Retry | None = None if reuse else "all"
        self.unfinished: int | None = None
        self.reused = 0

    def run(self, trials: Sequence[Trial]) -> Iterator[TrialRecord]:
        """Run the trials and yield their outcomes."""
        if not trials:
            return
        suite = self._baseline.suite
        outcome = Outcome(planned=len(trials))
        self.unfinished = len(trials)
        executor = self._executor_of(suite.timeout, suite.memory)
        run_id = self._store.begin_run(
            suite=suite.name,
            truth=suite.truth,
            command=shlex.join(["ope-bench", *sys.argv[1:]]),
            planned=len(trials),
            machine=self._machine,
        )
        try:
            for event in run(
                trials,
                store=self._store,
                run_id=run_id,
                executor=executor,
                outcome=outcome,
                retry=self._retry,
                rerun_by="without --reuse they run again",
            ):
                self._watch(event)
                self.unfinished = len(trials) - outcome.reused - outcome.executed
                self.reused += isinstance(event, Reused)
                if isinstance(event, Finished | Reused):
                    yield event.record
        finally:
            executor.close()
            self._store.end_run(run_id, outcome.exit_code(allow_failures=True))
        if outcome.interrupted:
            raise KeyboardInterrupt

    def alone(self, trials: Sequence[Trial], *, limits: float = 1.0) -> Iterable[TrialRecord]:
        """Run the trials now, one at a time, with their limits multiplied by `limits`.

        The outcomes are not stored: a timing or a repetition is not a planned trial.
        """
        suite = self._baseline.suite
        executor = self._executor_of(
            None if suite.timeout is None else suite.timeout * limits,
            None if suite.memory is None else int(suite.memory * limits),
        )
        outcome = Outcome(planned=len(trials))
        with contextlib.closing(executor), interruptible(executor, outcome, at_once=True):
            records = [
                event.record
                for event in executor.run(trials, exclusive=True)
                if isinstance(event, Finished)
            ]
        if outcome.interrupted:
            raise KeyboardInterrupt
        return records

    def machine_mismatch(self) -> str:
        """Return why times cannot be compared with the baseline's; empty where they can."""
        return comparable_machines(self._baseline.machine, self._machine)
