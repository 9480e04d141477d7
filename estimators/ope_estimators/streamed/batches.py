"""Batches of a log's rows, and the view of one that estimators get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ope_bench import Estimator, FloatArray, IntArray, Problem, View

__all__ = ["Batch", "BatchView"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a log, all rows of their units among them.

    Parameters
    ----------
    log : the rows, with the log's attributes ``context``, ``action``, ``reward``, ``propensity``,
        ``weight`` and ``targets``.
    problem_of : returns the problem of the rows and a policy, by its name.
    first, part, weight_before : as for `StreamedSums.sums`; without a part for rows from anywhere.
    made : predictions of models, kept for all estimators.
    """

    log: Any
    problem_of: Callable[[Any, str], Problem]
    first: int = 0
    part: Any = None
    weight_before: float = 0.0
    made: dict[Any, FloatArray] = field(default_factory=dict)

    @property
    def reward(self) -> FloatArray:
        """The rewards: (k,)."""
        reward: FloatArray = self.log.reward
        return reward

    @property
    def action(self) -> IntArray:
        """The actions: (k,)."""
        action: IntArray = self.log.action
        return action

    @cached_property
    def tables(self) -> list[FloatArray | None]:
        """For each policy its probabilities, (k, n_actions), or None."""
        every = [one.matrix for one in self.log.targets.values()]
        return [None if one is None else np.asarray(one.toarray()) for one in every]

    @cached_property
    def weights(self) -> list[FloatArray]:
        """For each policy its importance weights: (k,)."""
        at = np.arange(len(self.reward))
        logged = [
            one.probability if table is None else table[at, self.action]
            for one, table in zip(self.log.targets.values(), self.tables, strict=True)
        ]
        return [one / self.log.propensity for one in logged]

    @cached_property
    def problems(self) -> list[Problem]:
        """For each policy the problem of evaluating it, without a target sample."""
        return [self.problem_of(self.log, name) for name in self.log.targets]

    @cached_property
    def units(self) -> tuple[int, int]:
        """The number of the first unit, and that after the last."""
        if self.part is None or self.part.starts is None:
            return self.first, self.first + len(self.reward)
        ends = np.searchsorted(self.part.starts, [self.first, self.first + len(self.reward)])
        first, last = (ends + self.part.unit).tolist()
        return first, last

    @cached_property
    def starts(self) -> IntArray | None:
        """The rows of the batch at which a unit begins; None where each row is one: (units,)."""
        if self.part is None or self.part.starts is None:
            return None
        first, last = self.units
        starts: IntArray = self.part.starts[first - self.part.unit : last - self.part.unit]
        return starts - self.first

    def by_unit(self, values: FloatArray) -> FloatArray:
        """Return the sums over the rows of each unit."""
        if self.starts is None:
            return values
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))


class BatchView(View):
    """A batch as an estimator sees it, whose shared fits are those of the whole log.

    Parameters
    ----------
    problem : of the batch and a policy.
    estimator : whose access it grants.
    fits : returns a shared fit at the rows of the batch.
    """

    def __init__(self, problem: Problem, estimator: Estimator, fits: Callable[[Any], Any]) -> None:
        nothing: Any = None
        super().__init__(
            problem,
            estimator.access,
            seed=nothing,
            fit_cache=nothing,
            optional=estimator.optional_access,
        )
        self._fits = fits

    def fitted(self, spec: Any) -> Any:
        """Return a shared fit; UnavailableError for those that are not made of sums."""
        return self._fits(spec)
