"""Run candidates on made worlds, within a budget of time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ope_bench.execution import Event, Executor, Finished
from ope_bench.execution.runner import Outcome, interruptible
from ope_bench.logs.advice.likeness import Likeness
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.building import build
from ope_bench.trials.process.threads import pinned
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.trial import run_trial
from ope_bench.trials.workspace import Workspace

__all__ = ["LIKENESS", "Evidence", "Observer", "Progress", "run_on_worlds"]

LIKENESS = PluginSpec(
    "estimator",
    f"{Likeness.__module__}:{Likeness.__qualname__}",
    "likeness",
    {},
    origin="ope_bench",
)


class Progress(Protocol):
    """A context that receives the events of a run."""

    def __enter__(self) -> Any:
        """Begin the display."""

    def __exit__(self, *exc: object) -> None:
        """End the display."""

    def handle(self, event: Any) -> None:
        """Update by one event of the executor."""


Observer = Callable[[Sequence[Trial]], Progress]
"""Called with all trials before the first; what it returns is told every event."""


@dataclass(frozen=True)
class Evidence:
    """Records of trials on made worlds.

    Parameters
    ----------
    records : by trial key.
    complete : False where the budget ended before the last trial.
    seconds : wall time.
    """

    records: dict[str, TrialRecord] = field(default_factory=dict)
    complete: bool = True
    seconds: float = 0.0


def run_on_worlds(
    trials: Sequence[Trial],
    *,
    budget: float | None,
    executor: Executor | None,
    observe: Observer,
) -> Evidence:
    """Run trials until all have ended or the budget has.

    When the budget ends, running trials are abandoned; the executor can then not be used again.

    Parameters
    ----------
    trials : in the order in which they matter.
    budget : seconds; None for no limit.
    executor : where they run; this process where None, which ends a trial only by itself.
    observe : makes the progress display.
    """
    begun = time.monotonic()
    records: dict[str, TrialRecord] = {}
    run = _in_process if executor is None else _isolated
    progress = observe(trials)
    with progress:
        for event in run(trials, budget, executor):
            progress.handle(event)
            if isinstance(event, Finished):
                records[event.record.key] = event.record
    wanted = {trial.key for trial in trials}
    return Evidence(records, wanted <= records.keys(), time.monotonic() - begun)


def _isolated(
    trials: Sequence[Trial], budget: float | None, executor: Executor | None
) -> Iterator[Event]:
    assert executor is not None  # noqa: S101  the caller's condition
    outcome = Outcome()
    with interruptible(executor, outcome), _stopped_after(budget, executor):
        yield from executor.run(trials)
    if outcome.interrupted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _stopped_after(budget: float | None, executor: Executor) -> Iterator[None]:
    if budget is None:
        yield
        return
    timer = threading.Timer(budget, executor.stop, kwargs={"now": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _in_process(
    trials: Sequence[Trial], budget: float | None, executor: Executor | None
) -> Iterator[Event]:
    begun = time.monotonic()
    workspace = Workspace()
    with pinned(1):
        for trial in trials:
            if budget is not None and time.monotonic() - begun > budget:
                return
            yield Finished(
                run_trial(
                    trial,
                    workspace,
                    environment=build(trial.environment),
                    estimator=build(trial.estimator),
                ),
                0,
            )
