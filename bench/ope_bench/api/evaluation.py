"""Run every estimator on every environment: `evaluate`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ope_bench.api.progress import Progress
from ope_bench.api.results import Results
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.estimator import Estimator
from ope_bench.errors import UsageError
from ope_bench.plugins.resolution import spec_of
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.manifest import settings
from ope_bench.trials.building import build
from ope_bench.trials.process.isolation import random_states_restored
from ope_bench.trials.process.threads import pinned
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.trial import environment_failed, run_trial
from ope_bench.trials.workspace import Workspace

__all__ = ["evaluate"]

EstimatorLike = Estimator | str
EnvironmentLike = Environment | str
Records = Generator[TrialRecord, None, None]


@dataclass(frozen=True)
class _DataSet:
    """One replicate of a setting, with everything that runs on it."""

    spec: PluginSpec
    environment: Environment
    replicate: int
    seed: int
    estimators: Sequence[tuple[PluginSpec, Estimator]]

    def records(self, workspace: Workspace) -> Iterator[TrialRecord]:
        """Run every estimator; the caller restores global random states."""
        for spec, estimator in self.estimators:
            trial = Trial(self.spec, spec, self.replicate, seed=self.seed)
            yield run_trial(
                trial,
                workspace,
                environment=self.environment,
                estimator=estimator,
                restore=False,
            )


def evaluate(
    estimators: EstimatorLike | Iterable[EstimatorLike],
    environments: EnvironmentLike | Iterable[EnvironmentLike],
    *,
    replicates: int = 20,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool | None = None,
) -> Results:
    """Run every estimator on every environment and return the rows.

    The numbers are those of ``ope-bench run`` with the same names, parameters and seed, whatever
    ``n_jobs``. Nothing is stored, and a plugin that hangs or crashes takes its process with it.

    Parameters
    ----------
    estimators : objects, ids or selectors such as ``epws[classifier=gbm]``.
    environments : objects, ids or selectors; ``saito-toy[n_actions=[10,100]]`` names two.
    replicates : number of data sets of each environment.
    seed : from which all random streams derive.
    n_jobs : processes that share the data sets; 1 for this process alone, -1 for one a core.
    progress : show how many trials are done; by default in terminals and notebooks, for what
        takes longer than a second.

    Raises
    ------
    UsageError : an id, a parameter or ``n_jobs`` is wrong, or an environment cannot be sampled.
    """
    if isinstance(environments, str | Environment):
        environments = [environments]
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    if n_jobs == 0:
        msg = "n_jobs = 0: expected the number of processes, or -1 for one a core"
        raise UsageError(msg)
    methods = [pair for item in estimators for pair in _estimators(item)]
    data_sets = [
        _DataSet(spec, environment, replicate, seed, methods)
        for item in environments
        for spec, environment in _environments(item)
        for replicate in range(replicates)
    ]
    found = Results()
    run = _here(data_sets) if n_jobs == 1 else _in_processes(data_sets, n_jobs)
    total = len(data_sets) * len(methods)
    with contextlib.closing(run), Progress(total, progress) as shown:
        for record in run:
            if environment_failed(record):
                raise UsageError(record.reason)
            found.append(record)
            shown.add(record.status)
    return found


def _here(data_sets: Iterable[_DataSet]) -> Records:
    with pinned(1), random_states_restored():
        workspace = Workspace()
        for data_set in data_sets:
            yield from data_set.records(workspace)


def _in_processes(data_sets: Iterable[_DataSet], n_jobs: int) -> Records:
    """Run data sets in other processes, to which joblib sends classes of notebooks, too."""
    from joblib import Parallel, delayed

    run = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)
    outputs = run(delayed(_records)(data_set) for data_set in data_sets)
    try:
        for records in outputs:
            yield from records
    finally:
        with warnings.catch_warnings():
            # Of an interrupted evaluation: that other data sets were begun in vain.
            warnings.simplefilter("ignore")
            outputs.close()


def _records(data_set: _DataSet) -> list[TrialRecord]:
    with pinned(1), random_states_restored():
        return list(data_set.records(Workspace()))


def _environments(item: EnvironmentLike) -> list[tuple[PluginSpec, Environment]]:
    if isinstance(item, Environment):
        return [(spec_of(item), item)]
    return [(spec, build(spec)) for spec in settings("environment", item)]


def _estimators(item: EstimatorLike) -> list[tuple[PluginSpec, Estimator]]:
    if isinstance(item, Estimator):
        return [(spec_of(item), item)]
    return [(spec, build(spec)) for spec in settings("estimator", item)]
