"""`evaluate`: a benchmark in one call, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Iterable

from ope_bench.environment import Environment
from ope_bench.estimator import Estimator
from ope_bench.execution.threads import pinned
from ope_bench.records import PluginSpec, Trial, TrialRecord
from ope_bench.resolve import resolve, spec_of
from ope_bench.trial import Workspace, build, run_trial

__all__ = ["evaluate"]

EstimatorLike = Estimator | str
EnvironmentLike = Environment | str


def evaluate(
    estimators: EstimatorLike | Iterable[EstimatorLike],
    environments: EnvironmentLike | Iterable[EnvironmentLike],
    *,
    replicates: int = 20,
    seed: int = 0,
) -> list[TrialRecord]:
    """Run every estimator on every environment, here and now, and return the rows.

    The numbers are those of ``ope-bench run`` with the same names, parameters and seed.

    Parameters
    ----------
    estimators : objects or ids.
    environments : objects or ids.
    replicates : data sets an environment.
    seed : of everything random.
    """
    if isinstance(environments, str | Environment):
        environments = [environments]
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    worlds = [_environment(given) for given in environments]
    methods = [_estimator(given) for given in estimators]
    workspace = Workspace()
    with pinned(1):
        return [
            run_trial(
                Trial(world_spec, method_spec, replicate, seed),
                workspace,
                environment=world,
                estimator=method,
            )
            for world_spec, world in worlds
            for replicate in range(replicates)
            for method_spec, method in methods
        ]


def _environment(given: EnvironmentLike) -> tuple[PluginSpec, Environment]:
    spec = resolve("environment", given) if isinstance(given, str) else spec_of(given)
    return spec, build(spec) if isinstance(given, str) else given


def _estimator(given: EstimatorLike) -> tuple[PluginSpec, Estimator]:
    spec = resolve("estimator", given) if isinstance(given, str) else spec_of(given)
    return spec, build(spec) if isinstance(given, str) else given
