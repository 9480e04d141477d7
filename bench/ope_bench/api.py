"""`evaluate`: a benchmark in one call, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Iterable

from ope_bench.environment import Environment
from ope_bench.estimator import Estimator
from ope_bench.execution.threads import pinned
from ope_bench.leaderboard import Board, By, TruthKind, boards
from ope_bench.manifest import settings
from ope_bench.records import PluginSpec, Trial, TrialRecord
from ope_bench.report.terminal import render_text
from ope_bench.resolve import spec_of
from ope_bench.trial import Workspace, build, run_trial

__all__ = ["Results", "evaluate"]

EstimatorLike = Estimator | str
EnvironmentLike = Environment | str


class Results(list[TrialRecord]):
    """The rows of an evaluation; shown, they are its leaderboards."""

    def boards(self, by: By = "rmse", truth: TruthKind = "empirical") -> list[Board]:
        """The leaderboards of these rows."""
        return boards(self, by=by, truth=truth)

    def __repr__(self) -> str:
        return render_text(self.boards())


def evaluate(
    estimators: EstimatorLike | Iterable[EstimatorLike],
    environments: EnvironmentLike | Iterable[EnvironmentLike],
    *,
    replicates: int = 20,
    seed: int = 0,
) -> Results:
    """Run every estimator on every environment, here and now, and return the rows.

    The numbers are those of ``ope-bench run`` with the same names, parameters and seed. Nothing
    is stored, and a plugin that hangs or crashes takes this process with it.

    Parameters
    ----------
    estimators : objects, ids or selectors such as ``epws[classifier=gbm]``.
    environments : objects, ids or selectors; ``saito-toy[n_actions=[10,100]]`` is two.
    replicates : data sets an environment.
    seed : of everything random.
    """
    if isinstance(environments, str | Environment):
        environments = [environments]
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    worlds = [pair for given in environments for pair in _environments(given)]
    methods = [pair for given in estimators for pair in _estimators(given)]
    workspace = Workspace()
    with pinned(1):
        return Results(
            run_trial(
                Trial(world_spec, method_spec, replicate, seed),
                workspace,
                environment=world,
                estimator=method,
            )
            for world_spec, world in worlds
            for replicate in range(replicates)
            for method_spec, method in methods
        )


def _environments(given: EnvironmentLike) -> list[tuple[PluginSpec, Environment]]:
    if isinstance(given, Environment):
        return [(spec_of(given), given)]
    return [(spec, build(spec)) for spec in settings("environment", given)]


def _estimators(given: EstimatorLike) -> list[tuple[PluginSpec, Estimator]]:
    if isinstance(given, Estimator):
        return [(spec_of(given), given)]
    return [(spec, build(spec)) for spec in settings("estimator", given)]
