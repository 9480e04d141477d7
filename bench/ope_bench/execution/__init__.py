"""Execute trials: one interface, several executors.

An executor turns trials into events. It decides where trials run and how many at once; the runner
decides which trials run, in which order, and stores the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, Self

if TYPE_CHECKING:
    from ope_bench.trials.record import Trial, TrialRecord

Arithmetic = Literal["portable", "native"]
"""Kernels that every x86-64 processor with AVX2 has, or those that the libraries choose."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one trial.

    Parameters
    ----------
    timeout : seconds of fit and estimate together, None for no limit.
    memory : bytes, None for no limit.
    preparation : seconds of imports and sampling, before ``timeout`` starts to count.
    """

    timeout: float | None = None
    memory: int | None = None
    preparation: float = 600.0


@dataclass(frozen=True)
class Started:
    """A trial's fit has begun in a worker."""

    trial: Trial
    worker: int


@dataclass(frozen=True)
class Finished:
    """A trial ended, with any status."""

    record: TrialRecord
    worker: int


@dataclass(frozen=True)
class Reused:
    """A stored record stands for a planned trial."""

    record: TrialRecord


@dataclass(frozen=True)
class Stopping:
    """The executor was stopped and finishes running trials."""

    running: int


@dataclass(frozen=True)
class Message:
    """A message to the user, of one line."""

    text: str


Event = Started | Finished | Stopping | Message
"""Events of an executor."""

RunEvent = Started | Finished | Reused | Message
"""Events of a run."""


class Executor(Protocol):
    """The interface of executors, and the base of those in this package."""

    jobs: int
    limits: Limits
    arithmetic: Arithmetic | None
    """Kernels of worker processes; None where trials run in this process."""
    arithmetic_note: str = ""
    """Why they are native where nobody asked for that."""
    _stopping: bool = False
    _giving_up: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials and yield events.

        Parameters
        ----------
        trials : the trials; those on the same data should be adjacent.
        exclusive : run one trial at a time, in this order, with nothing else running.
        """

    def stop(self, *, now: bool = False) -> None:
        """Start no new trial; running ones are finished or, with ``now``, abandoned.

        Safe in a signal handler.
        """
        self._stopping = True
        self._giving_up |= now

    def close(self) -> None:
        """End all workers at once, with everything that they spawned."""
