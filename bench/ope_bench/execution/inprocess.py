"""Run trials in this process, one after another, for notebooks and debuggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ope_bench.execution import Event, Finished, Limits, Started
from ope_bench.trials.process.isolation import random_states_restored
from ope_bench.trials.process.settings import ProcessSettings
from ope_bench.trials.process.threads import pinned
from ope_bench.trials.record import Trial
from ope_bench.trials.trial import run_trial
from ope_bench.trials.workspace import Workspace

__all__ = ["InProcessExecutor"]


class InProcessExecutor:
    """Executor in this process; trials cannot be killed, so limits do not apply.

    Numbers equal those of the other executors bit for bit. Global random states and settings of
    the process are after a run as they were before it.

    Parameters
    ----------
    threads : a trial.
    """

    jobs = 1

    def __init__(self, *, threads: int = 1) -> None:
        self.threads = threads
        self.limits = Limits()
        self._workspace = Workspace()
        self._stopping = False

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials in order."""
        with pinned(self.threads), random_states_restored():
            self._workspace.settings = ProcessSettings()
            for trial in trials:
                if self._stopping:
                    return
                yield Started(trial, 0)
                # Other processes may run at the same time, so times do not count as exclusive.
                record = run_trial(trial, self._workspace, exclusive=exclusive, restore=False)
                yield Finished(record, 0)

    def stop(self, *, now: bool = False) -> None:
        """Start no new trial; with ``now``, interrupt the running one."""
        self._stopping = True
        if now:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Discard the last problem."""
        self._workspace.clear()
