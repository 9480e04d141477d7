"""Predict the remaining time of a run while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ope_bench.cli.running.reference import reference_table
from ope_bench.cli.running.trial_seconds import TrialSeconds
from ope_bench.store import Seconds
from ope_bench.trials.record import Trial
from ope_bench.units import format_estimate

__all__ = ["Forecast", "Remaining"]


class Remaining(NamedTuple):
    """The remaining time of a run.

    Parameters
    ----------
    seconds : expected.
    guessed : some of it comes from other settings than those that remain.
    """

    seconds: float
    guessed: bool

    def __str__(self) -> str:
        length = format_estimate(self.seconds)
        return f"{'at least' if self.guessed else 'about'} {length} left"


class Forecast:
    """Remaining time of a run, from what its trials took so far.

    There is none before every estimator that remains has run once.

    Parameters
    ----------
    trials : the remaining trials.
    jobs : number of trials at once.
    alone : which trials run alone.
    """

    def __init__(
        self,
        trials: Iterable[Trial],
        jobs: int,
        alone: Callable[[Trial], bool] = lambda trial: False,
    ) -> None:
        self.jobs = max(jobs, 1)
        self._alone = alone
        self._seconds = TrialSeconds(reference_table())
        self._cells: dict[tuple[int, int, str, bool], Trial] = {}
        self._left: Counter[tuple[int, int, str, bool]] = Counter()
        for trial in trials:
            self._left[self._cell(trial)] += 1
            self._cells.setdefault(self._cell(trial), trial)

    def finished(self, trial: Trial, seconds: float) -> None:
        """Remove a finished trial and learn its time."""
        self.dropped(trial)
        self.learned(trial, seconds)

    def learned(self, trial: Trial, seconds: float) -> None:
        """Learn the time of a trial that is not among the remaining ones."""
        self._seconds.learn(trial, Seconds(seconds, seconds), alone=self._alone(trial))

    def dropped(self, trial: Trial) -> None:
        """Remove a trial without learning from it."""
        cell = self._cell(trial)
        self._left[cell] -= 1
        if self._left[cell] <= 0:
            del self._left[cell]

    def remaining(self) -> Remaining | None:
        """Return the remaining time; None before every remaining estimator has run once."""
        rest, guessed = 0.0, False
        for cell, left in self._left.items():
            alone = cell[3]
            expected = self._seconds.expected(self._cells[cell], alone=alone)
            if expected is None:
                return None
            rest += left * expected.seconds.own / (1 if alone else self.jobs)
            guessed |= expected.guessed
        return Remaining(rest, guessed)

    def _cell(self, trial: Trial) -> tuple[int, int, str, bool]:
        return id(trial.environment), id(trial.estimator), trial.device, self._alone(trial)
