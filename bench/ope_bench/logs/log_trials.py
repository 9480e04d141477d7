"""Trials of estimators on a user's own log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from ope_bench.contracts.estimator import Estimator
from ope_bench.errors import UsageError
from ope_bench.execution import Event, Executor, Finished
from ope_bench.execution.runner import Outcome, interruptible
from ope_bench.logs.environment import OwnLog
from ope_bench.logs.reading.log_data import LogData
from ope_bench.plugins.resolution import spec_of
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.manifest import settings
from ope_bench.trials.building import build
from ope_bench.trials.process.isolation import random_states_restored
from ope_bench.trials.process.threads import pinned
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.trial import run_trial
from ope_bench.trials.workspace import Workspace

__all__ = ["ENVIRONMENT", "EstimatorLike", "EstimatorPair", "estimator_pairs", "run_on_log"]

ENVIRONMENT = "own-log"
"""Id of the environment, from which random streams derive."""

EstimatorLike = Estimator | str

EstimatorPair = tuple[PluginSpec, Estimator | None]
"""The spec of an estimator, and the object where one was given."""


def estimator_pairs(
    given: EstimatorLike | Iterable[EstimatorLike],
) -> list[EstimatorPair]:
    """Return the spec of each estimator, with the object where one was given.

    Raises
    ------
    UsageError : there is none, or one is unknown.
    """
    items = [given] if isinstance(given, str | Estimator) else list(given)
    pairs: list[EstimatorPair] = []
    for item in items:
        if isinstance(item, Estimator):
            pairs.append((spec_of(item), item))
        else:
            pairs += [(spec, None) for spec in settings("estimator", item)]
    if not pairs:
        msg = "name at least one estimator"
        raise UsageError(msg)
    return pairs


def run_on_log(
    log: LogData,
    pairs: Sequence[EstimatorPair],
    folder: Path,
    seed: int,
    executor: Executor | None,
    on_event: Callable[[Event], None],
) -> dict[str, list[TrialRecord]]:
    """Run all trials; return the records of each policy in the order of the estimators.

    Parameters
    ----------
    log : the log.
    pairs : from `estimator_pairs`.
    folder : where the log is stored.
    seed : from which all random streams derive.
    executor : where trials run; this process where None.
    on_event : called with each event of the executor.
    """
    trials = {
        (name, number): Trial(_environment(str(folder), name), spec, 0, seed=seed)
        for name in log.targets
        for number, (spec, _) in enumerate(pairs)
    }
    found: dict[str, TrialRecord] = {}
    if executor is None:
        with pinned(1), random_states_restored():
            workspace = Workspace()
            for (name, number), trial in trials.items():
                environment = OwnLog(str(folder), name)
                environment.log = log
                estimator = pairs[number][1]
                found[trial.key] = run_trial(
                    trial,
                    workspace,
                    environment=environment,
                    estimator=estimator if estimator is not None else build(pairs[number][0]),
                    restore=False,
                )
    else:
        outcome = Outcome()
        with interruptible(executor, outcome):
            for event in executor.run(list({one.key: one for one in trials.values()}.values())):
                on_event(event)
                if isinstance(event, Finished):
                    found[event.record.key] = event.record
        if outcome.interrupted:
            raise KeyboardInterrupt
    return {
        name: [found[trials[name, number].key] for number in range(len(pairs))]
        for name in log.targets
    }


@cache
def _environment(folder: str, target: str) -> PluginSpec:
    return PluginSpec(
        "environment",
        f"{OwnLog.__module__}:{OwnLog.__qualname__}",
        ENVIRONMENT,
        {"folder": folder, "target": target},
        origin="ope_bench",
    )
