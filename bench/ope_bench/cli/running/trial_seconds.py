"""Seconds of one trial, from what similar trials took."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from ope_bench.cli.running.reference import ROWS, Cost, ReferenceTable
from ope_bench.store import Seconds
from ope_bench.trials.record import Trial

__all__ = ["Expected", "TrialSeconds"]


class Expected(NamedTuple):
    """The expected time of a trial.

    Parameters
    ----------
    seconds : without and with fits that it shares with others on the same data.
    guessed : from other sizes or other parameters than its own.
    """

    seconds: Seconds
    guessed: bool


@dataclass
class _Mean:
    count: int = 0
    own: float = 0.0
    whole: float = 0.0
    cost: float = 0.0
    """Sum of the reference costs of the same trials."""
    guessed: bool = False

    def add(self, seconds: Seconds, cost: Cost) -> None:
        self.count += 1
        self.own += seconds.own
        self.whole += seconds.whole
        self.cost += cost.own
        self.guessed |= not cost.exact

    def seconds(self) -> Seconds:
        return Seconds(self.own / self.count, self.whole / self.count)


@dataclass
class TrialSeconds:
    """Expected seconds of trials, by the mean of their cell where one is known.

    A cell that is not known has the time of its estimator in other settings, times the ratio of
    both costs in the table; without any, the cost in the table times the seconds of its unit.

    Parameters
    ----------
    table : reference costs; where it lacks an estimator, costs are the numbers of rows.
    unit_seconds : `calibration_seconds` of this machine; None if the table alone shall not do.
    """

    table: ReferenceTable
    unit_seconds: float | None = None
    _cells: dict[tuple[object, ...], _Mean] = field(default_factory=lambda: defaultdict(_Mean))
    _estimators: dict[tuple[object, ...], _Mean] = field(
        default_factory=lambda: defaultdict(_Mean)
    )

    def learn(self, trial: Trial, seconds: Seconds, *, alone: bool = False) -> None:
        """Note the seconds of a trial."""
        cost = self._cost(trial)
        for cell in self._likenesses(trial, alone):
            self._cells[cell].add(seconds, cost)
        self._estimators[_estimator(trial)].add(seconds, cost)

    def expected(self, trial: Trial, *, alone: bool = False) -> Expected | None:
        """Return the expected time of a trial, None without any similar one."""
        for cell in self._likenesses(trial, alone):
            if cell in self._cells:
                return Expected(self._cells[cell].seconds(), False)
        known = self.table.cost(trial.environment, trial.estimator)
        cost = known or self._cost(trial)
        if _estimator(trial) in self._estimators:
            mean = self._estimators[_estimator(trial)]
            ratio = cost.own / (mean.cost / mean.count) if mean.cost else 1.0
            own, whole = mean.seconds()
            return Expected(Seconds(own * ratio, whole * ratio), mean.guessed or not cost.exact)
        if known is None or self.unit_seconds is None:
            return None
        own, whole, exact = known.times(self.unit_seconds)
        return Expected(Seconds(own, whole), not exact)

    def _cost(self, trial: Trial) -> Cost:
        cost = self.table.cost(trial.environment, trial.estimator)
        if cost is not None:
            return cost
        rows = trial.environment.params.get(ROWS)
        same = float(rows) if isinstance(rows, int) else 1.0
        return Cost(same, same, False)

    @staticmethod
    def _likenesses(trial: Trial, alone: bool) -> tuple[tuple[object, ...], ...]:
        """Return keys of the trial's cell: run alone or beside others, and run anyhow."""
        # All trials of a manifest share their specs, so the specs' ids identify the cell.
        cell = (id(trial.environment), *_estimator(trial))
        return (*cell, alone), cell


def _estimator(trial: Trial) -> tuple[object, ...]:
    return id(trial.estimator), trial.device
