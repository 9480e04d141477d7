"""The executors by name: how each is created, and its options.

Executors are imported when created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ope_bench.execution import Executor
    from ope_bench.plugins.spec import PluginSpec

__all__ = ["EXECUTORS", "ExecutorKind", "ExecutorOptions"]


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """Options of executors; each uses those that apply to it.

    Parameters
    ----------
    plugins : plugins of the plan, empty if there is nothing to run.
    jobs : number of trials at once; None for the number of slots of a cluster.
    threads : of each trial.
    timeout : seconds of fit and estimate together, None for no limit.
    memory : bytes that a trial may use, None for no limit.
    address : of a scheduler.
    """

    plugins: Sequence[PluginSpec] = ()
    jobs: int | None = 1
    threads: int = 1
    timeout: float | None = None
    memory: int | None = None
    address: str | None = None


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


def _local(options: ExecutorOptions) -> Executor:
    from ope_bench.execution.local import LocalExecutor

    return LocalExecutor(
        options.jobs or 1,
        threads=options.threads,
        timeout=options.timeout,
        memory=options.memory,
    )


def _in_process(options: ExecutorOptions) -> Executor:
    from ope_bench.execution.inprocess import InProcessExecutor

    return InProcessExecutor(threads=options.threads)


def _dask(options: ExecutorOptions) -> Executor:
    from ope_bench.execution.cluster.executor import DaskExecutor

    executor = DaskExecutor(
        options.plugins,
        address=options.address,
        jobs=options.jobs,
        threads=options.threads,
        timeout=options.timeout,
        memory=options.memory,
    )
    if options.plugins and options.address is not None:
        # Workers with other versions are refused before a store is opened.
        executor.connect()
    return executor


EXECUTORS: dict[str, ExecutorKind] = {
    "local": ExecutorKind(_local, frozenset({"--jobs"})),
    "inprocess": ExecutorKind(_in_process),
    "dask": ExecutorKind(_dask, frozenset({"--jobs", "--address"})),
}
"""By the name that ``--executor`` takes; the first is the default."""
