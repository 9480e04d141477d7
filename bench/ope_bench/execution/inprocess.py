"""Trials in this process, one after another: for notebooks and debuggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ope_bench.execution import Event, Finished, Limits, Started
from ope_bench.execution.threads import pinned
from ope_bench.records import Trial
from ope_bench.trial import Workspace, run_trial

__all__ = ["InProcessExecutor"]


class InProcessExecutor:
    """Runs trials here; nothing can be killed, so timeouts and memory limits do not hold.

    The numbers are those of the other executors, bit by bit.

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
        with pinned(self.threads):
            for trial in trials:
                if self._stopping:
                    return
                yield Started(trial, 0)
                # Nothing else runs here, but whatever runs beside us we do not know.
                record = run_trial(trial, self._workspace, exclusive=exclusive)
                yield Finished(record, 0)

    def stop(self, *, now: bool = False) -> None:
        """Begin no new trial; with ``now``, interrupt the one that runs."""
        self._stopping = True
        if now:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Forget the last problem."""
        self._workspace.clear()
