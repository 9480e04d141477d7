"""Trials in killable worker processes on this machine, one persistent worker a slot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ope_bench.execution import Event, Limits
from ope_bench.records import Trial

__all__ = ["LocalExecutor"]


class LocalExecutor:
    """Runs trials in worker processes that can be killed without harm to the rest."""

    def __init__(
        self,
        jobs: int = 1,
        *,
        threads: int = 1,
        timeout: float | None = None,
        memory: int | None = None,
        preparation: float = 600.0,
    ) -> None:
        self.jobs = jobs
        self.threads = threads
        self.limits = Limits(timeout, memory, preparation)

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials."""
        raise NotImplementedError

    def stop(self) -> None:
        """Begin no new trial."""
        raise NotImplementedError

    def close(self) -> None:
        """End all workers."""
