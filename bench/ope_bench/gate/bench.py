"""Where a gate's trials run: through the runner into a store."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ope_bench.baseline import Baseline
from ope_bench.execution import Executor, Finished
from ope_bench.gate.timing import comparable_machines
from ope_bench.records import Trial, TrialRecord
from ope_bench.runner import Outcome, Reused, RunEvent, interruptible, run
from ope_bench.store import Store

__all__ = ["ExecutorOf", "StoreBench"]

ExecutorOf = Callable[[float | None, int | None], Executor]
"""An executor with this timeout and this memory limit."""


class StoreBench:
    """Runs trials into a store, and reuses what is stored and current.

    Parameters
    ----------
    baseline : whose limits hold.
    store : open for writing.
    executor_of : makes executors.
    machine : facts of this machine.
    watch : told every event.

    Attributes
    ----------
    unfinished : trials of the run under way, or the last one, that have no outcome; None before
        any run.
    """

    def __init__(
        self,
        baseline: Baseline,
        store: Store,
        executor_of: ExecutorOf,
        machine: Mapping[str, Any],
        watch: Callable[[RunEvent], None] = lambda event: None,
    ) -> None:
        self._baseline = baseline
        self._store = store
        self._executor_of = executor_of
        self._machine = machine
        self._watch = watch
        self.unfinished: int | None = None

    def run(self, trials: Sequence[Trial]) -> Iterator[TrialRecord]:
        """The outcomes of the trials, stored and current ones reused."""
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
                trials, store=self._store, run_id=run_id, executor=executor, outcome=outcome
            ):
                self._watch(event)
                self.unfinished = len(trials) - outcome.reused - outcome.executed
                if isinstance(event, Finished | Reused):
                    yield event.record
        finally:
            executor.close()
            self._store.end_run(run_id, outcome.exit_code(allow_failures=True))
        if outcome.interrupted:
            raise KeyboardInterrupt

    def alone(self, trials: Sequence[Trial], *, limits: float = 1.0) -> Iterable[TrialRecord]:
        """The outcomes of the trials run now, one at a time, with their limits multiplied.

        They are not stored: a timing or a second chance stands for no planned trial.
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
        """Why times cannot be compared with the baseline's; empty where they can."""
        return comparable_machines(self._baseline.machine, self._machine)
