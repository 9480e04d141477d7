"""Trials in this process, one after another: for debugging and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ope_bench.execution import Event, Limits
from ope_bench.records import Trial

__all__ = ["InProcessExecutor"]


class InProcessExecutor:
    """Runs trials here; nothing can be interrupted, so timeouts and memory limits do not hold."""

    jobs = 1

    def __init__(self, *, threads: int = 1) -> None:
        self.threads = threads
        self.limits = Limits()

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials in order."""
        raise NotImplementedError

    def stop(self) -> None:
        """Begin no new trial."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to end."""
