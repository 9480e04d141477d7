"""The executors by name, how each is created, and the one that runs trials in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ope_bench.execution import Arithmetic, Event, Executor, Finished, Limits, Started

if TYPE_CHECKING:
    from ope_bench.plugins.spec import PluginSpec
    from ope_bench.trials.foreign import Processes
    from ope_bench.trials.record import Trial


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """Options of executors; each uses those that apply to it.

    Parameters
    ----------
    plugins : plugins of the plan, empty if there is nothing to run.
    jobs : number of trials at once; None for as many as a cluster can run.
    threads : of each trial.
    timeout : seconds of fit and estimate together, None for no limit.
    memory : bytes that a trial may use, None for no limit.
    address : of a scheduler.
    arithmetic : kernels of worker processes; None for the portable ones where they are right.
    foreign : where estimators of others run, if not in worker processes.
    """

    plugins: Sequence[PluginSpec] = ()
    jobs: int | None = 1
    threads: int = 1
    timeout: float | None = None
    memory: int | None = None
    address: str | None = None
    arithmetic: Arithmetic | None = None
    foreign: Processes | None = None


@dataclass(frozen=True)
class ExecutorKind:
    """One way to run trials.

    Parameters
    ----------
    create : creates an executor.
    options : options of the command line that only this executor accepts.
    """

    create: Callable[[ExecutorOptions], Executor]
    options: frozenset[Literal["--jobs", "--address"]] = frozenset()


_OF_WORKERS = ("threads", "timeout", "memory", "arithmetic")
"""Options of executors that run trials in worker processes."""


def _local(options: ExecutorOptions) -> Executor:
    from ope_bench.execution.local import LocalExecutor

    more = {name: getattr(options, name) for name in (*_OF_WORKERS, "foreign")}
    return LocalExecutor(options.jobs or 1, **more)


def _dask(options: ExecutorOptions) -> Executor:
    from ope_bench.execution.dask.executor import DaskExecutor

    executor = DaskExecutor(
        options.plugins,
        **{name: getattr(options, name) for name in ("address", "jobs", *_OF_WORKERS)},
    )
    if options.plugins and options.address is not None:
        # Workers with other versions are refused before a store is opened.
        executor.connect()
    return executor


EXECUTORS: dict[str, ExecutorKind] = {
    "local": ExecutorKind(_local, frozenset({"--jobs"})),
    "inprocess": ExecutorKind(lambda options: InProcessExecutor(threads=options.threads)),
    "dask": ExecutorKind(_dask, frozenset({"--jobs", "--address"})),
}
"""Kinds of executors by the names that ``--executor`` takes; the first is the default."""


class InProcessExecutor(Executor):
    """Executor in this process, for notebooks and debuggers.

    Trials cannot be killed, so limits do not apply.

    Numbers equal those of the other executors bit for bit, until a trial changes settings of the
    process, of which its record has a note: they stay. Global random states and numbers of threads
    are after a run as they were before it.

    Parameters
    ----------
    threads : of each trial.
    """

    jobs = 1
    arithmetic = None

    def __init__(self, *, threads: int = 1) -> None:
        from ope_bench.trials.trial import Workspace

        self.threads = threads
        self.limits = Limits()
        self._workspace = Workspace()

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials in order."""
        from ope_bench.trials.isolation import random_states_restored, thread_limit
        from ope_bench.trials.trial import run_trial

        with thread_limit(self.threads), random_states_restored():
            # Those of now: the caller may have changed some since the last run.
            self._workspace.settings = None
            for trial in trials:
                if self._stopping:
                    return
                yield Started(trial, 0)
                # Other processes may run at the same time, so times do not count as exclusive.
                record = run_trial(trial, self._workspace, exclusive=exclusive, restore=False)
                yield Finished(record, 0)

    def stop(self, *, now: bool = False) -> None:
        """Start no new trial; with ``now``, interrupt the running one."""
        super().stop()
        if now:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Discard the last problem."""
        self._workspace.clear()
