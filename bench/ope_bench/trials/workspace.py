"""A worker's data: the problem that the next trial may reuse, and its shared fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.fit_cache import FitCache
from ope_bench.errors import DataError
from ope_bench.trials.batching import BlockCache
from ope_bench.trials.process.isolation import seed_global_states
from ope_bench.trials.process.settings import ProcessSettings
from ope_bench.trials.record import Trial
from ope_bench.trials.support import Support, support_of

__all__ = ["Data", "Workspace"]


MOST_RATIOS = 200_000
"""Ratios of the policies of which the largest is taken; of more, those of the first rows."""


@dataclass(frozen=True)
class Data:
    """One problem with its truth, its support, and the shared fits on it."""

    problem: Problem
    truth: Truth
    support: Support
    fit_cache: FitCache

    @cached_property
    def least_effective(self) -> float | None:
        """Rows over the largest weight that the policies allow; None where they are not known.

        No weights are worth fewer equal rows, on average.
        """
        _, largest = self.problem.weight_range(MOST_RATIOS)
        return len(self.problem.reward) / largest if 0 < largest < math.inf else None


class Workspace:
    """State of a worker between trials: the last problem and the shared fits on it.

    Attributes
    ----------
    batches : cache of the last block of replicates that were trained batched.
    settings : of the process before its first trial.
    spoiled : a trial left settings that cannot be put back: the process must not run another.
    """

    def __init__(self) -> None:
        self.batches = BlockCache()
        self.settings = ProcessSettings()
        self.spoiled = False
        self._key: str | None = None
        self._data: Data | None = None

    def holds(self, trial: Trial) -> bool:
        """Return whether the trial's problem is kept from the trial before."""
        return self._data is not None and self._key == trial.data_key

    def data(self, trial: Trial, environment: Environment) -> Data:
        """Return the trial's problem, sampled now or kept from the last trial."""
        if self._data is None or self._key != trial.data_key:
            # Free the old problem before sampling, so that two large ones are never in memory
            # together.
            self._key = self._data = None
            seed = trial.data_seed
            # Data must not depend on the estimator that first asks for them.
            seed_global_states(seed.global_seed(""))
            sampled: object = environment.sample(
                world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
            )
            match sampled:
                case (Problem() as problem, Truth() as truth):
                    pass
                case _:
                    msg = f"{type(environment).__name__}.sample must return (Problem, Truth)"
                    raise DataError(msg)
            self._data = Data(problem, truth, support_of(problem), FitCache())
            self._key = trial.data_key
        return self._data

    def clear(self) -> None:
        """Discard the cached problem and fits."""
        self._key = self._data = None
        self.batches.clear()
