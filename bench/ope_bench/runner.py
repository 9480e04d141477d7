"""The run: planned trials, minus those stored and current, through an executor into the store.

A run is a generator of events; progress bars and summaries are consumers.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from types import FrameType
from typing import Any

from ope_bench.devices import is_batched
from ope_bench.execution import Executor, Finished, Started, Stopping, Told
from ope_bench.machine import differences
from ope_bench.provenance import answer_digest
from ope_bench.records import PluginSpec, Status, Trial, TrialRecord
from ope_bench.registry import Kind, registry
from ope_bench.seeding import canonical_json
from ope_bench.store import Freshness, Retry, Store

__all__ = [
    "Notice",
    "Outcome",
    "Reused",
    "RunEvent",
    "digest_of",
    "freshness",
    "interruptible",
    "run",
]


@dataclass(frozen=True)
class Reused:
    """A stored record stands for a planned trial."""

    record: TrialRecord


@dataclass(frozen=True)
class Notice:
    """One line that the user should read."""

    text: str


RunEvent = Started | Finished | Reused | Notice

Exclusive = Callable[[Trial], bool]

LOOKED_UP_AT_ONCE = 20_000
"""Planned trials whose stored outcomes are in memory together."""


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
        """130, 4, 3 or 0, in this order of precedence.

        >>> Outcome(planned=1, executed=1, status=Counter([Status.ERROR])).exit_code()
        3
        """
        if self.interrupted:
            return 130
        if self.planned == 0 or self.reused + self.executed < self.planned:
            return 4
        broken = any(status.broken for status, count in self.status.items() if count)
        return 3 if broken and not allow_failures else 0


def _never(trial: Trial) -> bool:
    return False


def _notice(event: Stopping | Told) -> Notice:
    if isinstance(event, Told):
        return Notice(event.text)
    trials = f"{event.running} running trial{'s' if event.running > 1 else ''}"
    return Notice(f"stopping: waiting for {trials}; Ctrl-C again gives up on that")


def freshness(
    executor: Executor, *, exclusive: Exclusive = _never, retry: Retry | None = None
) -> Freshness:
    """When stored records may stand for trials that this executor would run."""
    limits = executor.limits
    return Freshness(digest_of, exclusive, limits.timeout, limits.memory, retry)


def run(
    plan: Sequence[Trial],
    *,
    store: Store,
    run_id: str,
    executor: Executor,
    outcome: Outcome,
    exclusive: Exclusive = _never,
    retry: Retry | None = None,
) -> Iterator[RunEvent]:
    """Run what is not stored yet; every finished trial is in the store before its event.

    The trials for which ``exclusive`` holds run alone at the end, shuffled. Ctrl-C begins no new
    trial and waits for those that run; a second one ends them. Either way the generator ends
    normally, with ``outcome.interrupted`` set and all workers gone.

    Parameters
    ----------
    plan : all trials of the run.
    store : open for writing.
    run_id : from ``store.begin_run``.
    executor : where to run, closed at the end; its limits are stored with each record.
    outcome : kept up to date with every event.
    exclusive : which trials are to be timed alone.
    retry : run stored failures, or everything, again.
    """
    begun = time.monotonic()
    planned = {trial.key: trial for trial in plan}
    outcome.planned = len(planned)
    with contextlib.closing(executor), interruptible(executor, outcome):
        fresh = freshness(executor, exclusive=exclusive, retry=retry)
        stored: set[str] = set()
        waiting = iter(planned.values())
        # So many at once, because nobody needs all records of a large plan together.
        while some := list(islice(waiting, LOOKED_UP_AT_ONCE)):
            found = store.current(some, fresh)
            store.reuse(found.values(), run_id)
            stored.update(found)
            for record in found.values():
                outcome.reused += 1
                outcome.status[record.status] += 1
                yield Reused(record)
        yield from _changes(store, run_id)
        rest = [trial for key, trial in planned.items() if key not in stored]
        together = [trial for trial in rest if not exclusive(trial)]
        # A key is a hash, so this order is as good as shuffled, and the same every time.
        # Blocks of replicates stay whole.
        alone = sorted(
            filter(exclusive, rest),
            key=lambda trial: (trial.group if is_batched(trial.device) else trial.key, trial.key),
        )
        for trials, lane in ((together, False), (alone, True)):
            if not trials or outcome.interrupted:
                continue
            for event in executor.run(trials, exclusive=lane):
                if isinstance(event, Finished):
                    limits = executor.limits
                    record = event.record
                    store.add(record, run_id, timeout=limits.timeout, memory=limits.memory)
                    outcome.executed += 1
                    outcome.status[record.status] += 1
                outcome.seconds = time.monotonic() - begun
                yield _notice(event) if isinstance(event, Stopping | Told) else event
    outcome.seconds = time.monotonic() - begun


def digest_of(trial: Trial) -> str:
    """The digest of the code and data that would answer a trial now."""
    return answer_digest(_built(trial.environment), _built(trial.estimator))


def _built(spec: PluginSpec) -> Any:
    return _object(spec.kind, spec.reference, canonical_json(spec.params))


@cache
def _object(kind: Kind, reference: str, params: str) -> Any:
    return registry().find(kind, reference).cls(**json.loads(params))


def _changes(store: Store, run_id: str) -> Iterator[Notice]:
    """Tell of reused trials that other versions of packages made."""
    now = next((one.machine for one in store.runs() if one.id == run_id), {})
    changed: dict[str, int] = {}
    for machine, count in store.makers(run_id):
        told = ", ".join(differences(machine, now))
        if told:
            changed[told] = changed.get(told, 0) + count
    for told, count in changed.items():
        trials = f"{count} reused trial{'s' if count > 1 else ''}"
        yield Notice(f"{trials} ran with other versions ({told}); --retry all runs them again")


@contextlib.contextmanager
def interruptible(
    executor: Executor, outcome: Outcome, *, at_once: bool = False
) -> Iterator[None]:
    """The first Ctrl-C ends the run gently, the second (or with ``at_once`` the first) at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pressed(number: int, frame: FrameType | None) -> None:
        executor.stop(now=at_once or outcome.interrupted)
        outcome.interrupted = True

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    except KeyboardInterrupt:
        outcome.interrupted = True
    finally:
        signal.signal(signal.SIGINT, before)
