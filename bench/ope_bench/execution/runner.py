"""Run the planned trials without current stored records, and store their records.

A run is a generator of events; progress bars and summaries are consumers.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from types import FrameType
from typing import Any

from ope_bench.base.errors import UsageError
from ope_bench.execution import Executor, Finished, Message, Reused, RunEvent, Stopping
from ope_bench.execution.machine import software_changes
from ope_bench.plugins.registry import Kind, registry
from ope_bench.plugins.spec import PluginSpec, result_digest
from ope_bench.store import Freshness, Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Retry, Status
from ope_bench.trials.trial import environment_failed

LOOKED_UP_AT_ONCE = 20_000
"""Planned trials whose stored outcomes are in memory together."""


@dataclass
class RunCounts:
    """The state of a run: counts of trials.

    Parameters
    ----------
    planned, reused, executed : numbers of trials.
    status : over planned trials with an outcome, reused ones included.
    seconds : wall time.
    interrupted : whether Ctrl-C was pressed.
    """

    planned: int = 0
    reused: int = 0
    executed: int = 0
    status: Counter[Status] = field(default_factory=Counter)
    seconds: float = 0.0
    interrupted: bool = False

    def exit_code(self, *, allow_failures: bool = False) -> int:
        """Return 130, 4, 3 or 0, in this order of precedence.

        >>> RunCounts(planned=1, executed=1, status=Counter([Status.ERROR])).exit_code()
        3
        """
        if self.interrupted:
            return 130
        if self.planned in (0, self.status[Status.UNAVAILABLE]):
            return 4
        if self.reused + self.executed < self.planned:
            return 4
        broken = any(status.broken for status, count in self.status.items() if count)
        return 3 if broken and not allow_failures else 0


def run(
    plan: Sequence[Trial],
    *,
    store: Store,
    run_id: str,
    executor: Executor,
    outcome: RunCounts,
    exclusive: Callable[[Trial], bool] = lambda trial: False,
    retry: Retry | None = None,
    rerun_hint: str = "--retry all runs them again",
) -> Iterator[RunEvent]:
    """Run the trials that are not stored; every record is stored before its event.

    The trials for which ``exclusive`` is true run alone at the end, shuffled. After Ctrl-C no new
    trial starts and running ones are finished; a second Ctrl-C ends them. In both cases the
    generator ends normally, with ``outcome.interrupted`` set and all workers ended.

    Parameters
    ----------
    plan : all trials of the run.
    store : open for writing.
    run_id : from ``store.begin_run``.
    executor : where to run, closed at the end; its limits are stored with each record.
    outcome : kept up to date with every event.
    exclusive : which trials are to be timed alone.
    retry : run stored failures, or everything, again.
    rerun_hint : text appended to the note on reused trials that other versions of packages made.

    Raises
    ------
    UsageError : an environment fails before it was ever sampled; its mistake is no estimator's,
        and no trial of it is stored.
    """
    begun = time.monotonic()
    planned = {trial.key: trial for trial in plan}
    outcome.planned = len(planned)
    with contextlib.closing(executor), interruptible(executor, outcome):
        limits = executor.limits
        fresh = Freshness(
            digest_of,
            exclusive=exclusive,
            timeout=limits.timeout,
            memory=limits.memory,
            retry=retry,
        )
        stored: set[str] = set()
        sampled: set[int] = set()
        known: dict[tuple[int, int], tuple[str, str | None]] = {}
        waiting = iter(planned.values())
        # Look up in chunks, to bound memory on large plans.
        while some := list(islice(waiting, LOOKED_UP_AT_ONCE)):
            found = store.current(some, fresh)
            store.reuse(found.values(), run_id)
            stored.update(found)
            for record in found.values():
                outcome.reused += 1
                outcome.status[record.status] += 1
                if record.status is Status.OK:
                    sampled.add(id(planned[record.key].environment))
                yield Reused(record)
        yield from _changes(store, run_id, rerun_hint)
        rest = [trial for key, trial in planned.items() if key not in stored]
        together = [trial for trial in rest if not exclusive(trial)]
        # Keys are hashes, so this order is random but reproducible.
        # Blocks of replicates are not split.
        alone = sorted(
            filter(exclusive, rest),
            key=lambda trial: (trial.group if trial.device.batched else trial.key, trial.key),
        )
        for trials, timed in ((_environments_first(together, sampled), False), (alone, True)):
            if not trials or outcome.interrupted:
                continue
            if timed and executor.jobs > 1 and len(trials) > 1:
                told = f"the last {len(trials)} trials run alone, for comparable times"
                yield Message(f"{told}; arithmetic: {executor.arithmetic}")
            for event in executor.run(trials, exclusive=timed):
                if isinstance(event, Finished):
                    record = event.record
                    environment = id(planned[record.key].environment)
                    if environment not in sampled and environment_failed(record):
                        raise UsageError(record.reason)
                    if record.logging_average is not None:
                        sampled.add(environment)
                    store.add(
                        record,
                        run_id,
                        timeout=limits.timeout,
                        memory=limits.memory,
                        estimator_digest=_own_digest(planned[record.key], record, known),
                    )
                    outcome.executed += 1
                    outcome.status[record.status] += 1
                outcome.seconds = time.monotonic() - begun
                if isinstance(event, Stopping):
                    plural = "s" if event.running > 1 else ""
                    told = f"stopping: waiting for {event.running} running trial{plural}"
                    yield Message(f"{told}; Ctrl-C again gives up on that")
                else:
                    yield event
    outcome.seconds = time.monotonic() - begun


def _environments_first(trials: Sequence[Trial], sampled: Container[int]) -> list[Trial]:
    """Return the trials with one of each setting first, so that an environment fails at once.

    Parameters
    ----------
    trials : those to run; batched ones, whose blocks are not split, keep their place.
    sampled : ids of the settings that were sampled before by the current code.
    """
    first: dict[int, Trial] = {}
    for trial in trials:
        if not trial.device.batched and id(trial.environment) not in sampled:
            first.setdefault(id(trial.environment), trial)
    chosen = {id(trial) for trial in first.values()}
    return [*first.values(), *(trial for trial in trials if id(trial) not in chosen)]


def digest_of(trial: Trial) -> str:
    """Return the digest of the current code and data of a trial."""
    return _digest(trial.environment, trial.estimator)


def _digest(*specs: PluginSpec) -> str:
    built = (_object(spec.kind, spec.reference, spec.identity_json) for spec in specs)
    return result_digest(*built)


def _own_digest(
    trial: Trial, record: TrialRecord, known: dict[tuple[int, int], tuple[str, str | None]]
) -> str | None:
    """Return the digest of the estimator alone; None where a trial ran on other code than here.

    Parameters
    ----------
    known : digests of trials and their estimators, by the ids of both specs.
    """
    pair = id(trial.environment), id(trial.estimator)
    if pair not in known:
        known[pair] = "", None
        # A plugin may be built on the workers alone.
        with contextlib.suppress(Exception):
            known[pair] = digest_of(trial), _digest(trial.estimator)
    whole, own = known[pair]
    return own if whole == record.code_digest else None


@cache
def _object(kind: Kind, reference: str, identity: str) -> Any:
    return registry().find(kind, reference).cls(**json.loads(identity)["params"])


def _changes(store: Store, run_id: str, rerun_hint: str) -> Iterator[Message]:
    """Yield notes on reused trials that other versions of packages made."""
    now = next((one.machine for one in store.runs() if one.id == run_id), {})
    changed: dict[str, int] = {}
    for machine, count in store.machines_of_reused(run_id):
        told = ", ".join(software_changes(machine, now))
        if told:
            changed[told] = changed.get(told, 0) + count
    for told, count in changed.items():
        trials = f"{count} reused trial{'s' if count > 1 else ''}"
        yield Message(f"{trials} ran with other versions ({told}); {rerun_hint}")


@contextlib.contextmanager
def interruptible(
    executor: Executor, outcome: RunCounts, *, at_once: bool = False
) -> Iterator[None]:
    """Handle Ctrl-C: the first finishes running trials, a second ends them.

    With ``at_once`` the first ends them.
    """
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
