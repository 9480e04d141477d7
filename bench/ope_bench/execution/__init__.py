"""Where trials run: one small interface, several executors.

An executor turns trials into events. It decides where and how many at once; the runner decides
which trials, in what order, and what becomes of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ope_bench.records import Trial, TrialRecord

__all__ = ["Event", "Executor", "Finished", "Limits", "Started", "Stopping", "Told"]


@dataclass(frozen=True)
class Limits:
    """What one trial may use.

    Parameters
    ----------
    timeout : seconds of fit and estimate together, None for no limit.
    memory : bytes, None for no limit.
    preparation : seconds of imports and sampling, before the clock of ``timeout`` starts.
    """

    timeout: float | None = None
    memory: int | None = None
    preparation: float = 600.0


@dataclass(frozen=True)
class Started:
    """A trial's fit has begun in a slot."""

    trial: Trial
    slot: int


@dataclass(frozen=True)
class Finished:
    """A trial ended, however it did."""

    record: TrialRecord
    slot: int


@dataclass(frozen=True)
class Stopping:
    """The executor was stopped and lets trials that run come to their end."""

    running: int


@dataclass(frozen=True)
class Told:
    """Something that the user should know: one line."""

    text: str


Event = Started | Finished | Stopping | Told


class Executor(Protocol):
    """Runs trials somewhere."""

    jobs: int
    limits: Limits

    def run(self, trials: Sequence[Trial], *, exclusive: bool = False) -> Iterator[Event]:
        """Run the trials and yield what happens.

        Parameters
        ----------
        trials : those on the same data should stand together.
        exclusive : one at a time, in this order, with nothing else running.
        """

    def stop(self, *, now: bool = False) -> None:
        """Begin no new trial; those that run come to their end, or with ``now`` are given up.

        Safe in a signal handler.
        """

    def close(self) -> None:
        """End all workers at once, with everything that they spawned."""
