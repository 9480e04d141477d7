"""The run: planned trials, minus those stored and current, through an executor into the store.

A run is a generator of events; progress bars and summaries are consumers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ope_bench.execution import Event, Executor
from ope_bench.records import Status, Trial, TrialRecord
from ope_bench.store import Retry, Store

__all__ = ["Notice", "Outcome", "Reused", "RunEvent", "run", "rerun"]


@dataclass(frozen=True)
class Reused:
    """A stored record stands for a planned trial."""

    record: TrialRecord


@dataclass(frozen=True)
class Notice:
    """One line that the user should read."""

    text: str


RunEvent = Event | Reused | Notice


@dataclass
class Outcome:
    """What came of a run so far.

    Parameters
    ----------
    planned, reused, executed : numbers of trials.
    status : over planned trials with an outcome, reused ones included.
    seconds : wall time.
    interrupted : Ctrl-C was pressed.
    """

    planned: int = 0
    reused: int = 0
    executed: int = 0
    status: Counter[Status] = field(default_factory=Counter)
    seconds: float = 0.0
    interrupted: bool = False

    def exit_code(self, *, allow_failures: bool = False) -> int:
        """130, 4, 3 or 0, in this order of precedence."""
        if self.interrupted:
            return 130
        if self.planned == 0 or self.reused + self.executed < self.planned:
            return 4
        broken = any(status.broken for status, count in self.status.items() if count)
        return 3 if broken and not allow_failures else 0


def run(
    plan: Sequence[Trial],
    *,
    store: Store,
    run_id: str,
    executor: Executor,
    outcome: Outcome,
    exclusive: Callable[[Trial], bool] = lambda trial: False,
    retry: Retry | None = None,
) -> Iterator[RunEvent]:
    """Run what is not stored yet; every finished trial is in the store before its event.

    The trials for which ``exclusive`` holds run alone at the end, shuffled. Ctrl-C begins no new
    trial and waits for those that run; a second one ends them. Either way the generator ends
    normally, with ``outcome.interrupted`` set.

    Parameters
    ----------
    plan : all trials of the run.
    store : open for writing.
    run_id : from ``store.begin_run``.
    executor : where to run; its limits are stored with each record.
    outcome : kept up to date with every event.
    exclusive : which trials are to be timed alone.
    retry : run stored failures, or everything, again.
    """
    raise NotImplementedError


def rerun(trial: Trial, *, store: Store, run_id: str, executor: Executor) -> TrialRecord:
    """Run one trial again, whatever is stored, and store it."""
    raise NotImplementedError
