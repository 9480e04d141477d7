"""Expected seconds of trials, from the times of similar trials: before a run and while it runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ope_bench.base.units import format_estimate
from ope_bench.store import Seconds
from ope_bench.trials.record import Trial

NAMES_SHOWN = 4


class _Expected(NamedTuple):
    """The expected time of a trial.

    Parameters
    ----------
    own, whole : seconds without and with fits that it shares with others on the same data.
    guessed : from other settings than its own.
    """

    own: float
    whole: float
    guessed: bool


class _TrialSeconds:
    """Expected seconds of trials: the mean of their cell, or of their estimator elsewhere.

    Most estimators cost as much a row, so the times of other settings are scaled by the ratio of
    the numbers of rows.
    """

    def __init__(self) -> None:
        # Number of trials, own and whole seconds, and rows, by what the trials share.
        self._sums: dict[tuple[object, ...], np.ndarray] = defaultdict(lambda: np.zeros(4))

    def learn(self, trial: Trial, seconds: Seconds, *, alone: bool = False) -> None:
        """Note the seconds of a trial."""
        for key in self._keys(trial, alone):
            self._sums[key] += (1, seconds.own, seconds.whole, _rows(trial))

    def expected(self, trial: Trial, *, alone: bool = False) -> _Expected | None:
        """Return the expected time of a trial, None if its estimator never ran."""
        *cells, estimator = self._keys(trial, alone)
        for key in cells:
            if key in self._sums:
                count, own, whole, _ = self._sums[key].tolist()
                return _Expected(own / count, whole / count, False)
        if estimator not in self._sums:
            return None
        _, own, whole, rows = self._sums[estimator].tolist()
        scale = _rows(trial) / rows
        return _Expected(scale * own, scale * whole, True)

    @staticmethod
    def _keys(trial: Trial, alone: bool) -> list[tuple[object, ...]]:
        """Return keys of a trial: of its cell run alone or beside others, its cell, its estimator.

        All trials of a manifest share their specs, so the specs' ids identify them.
        """
        estimator = id(trial.estimator), trial.device
        cell = id(trial.environment), *estimator
        return [(*cell, alone), cell, estimator]


def _rows(trial: Trial) -> float:
    rows = trial.environment.params.get("n_samples")
    return float(rows) if isinstance(rows, int) and rows > 0 else 1.0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The expected time of trials that have not run.

    Parameters
    ----------
    seconds : of those whose time is known or guessed.
    stored : number of trials whose cell has stored timings.
    guessed : number of trials whose time comes from other settings.
    unknown : number of trials of which nothing is known, by estimator.
    """

    seconds: float
    stored: int
    guessed: int
    unknown: Mapping[str, int]

    def __add__(self, other: Prediction) -> Prediction:
        return Prediction(
            seconds=self.seconds + other.seconds,
            stored=self.stored + other.stored,
            guessed=self.guessed + other.guessed,
            unknown=Counter(self.unknown) + Counter(other.unknown),
        )

    def as_text(self, trials: int) -> str:
        """Return the expected duration as text, and how much of it is guessed.

        Parameters
        ----------
        trials : number of all predicted trials.
        """
        length = format_estimate(self.seconds)
        if not trials:
            return f"about {length}"
        unknown = sum(self.unknown.values())
        names = ", ".join([*self.unknown][:NAMES_SHOWN])
        more = len(self.unknown) - NAMES_SHOWN
        names += f" and {more} more" if more > 0 else ""
        if unknown == trials:
            return f"unknown: the store has no times of {names}"
        caveats = []
        if self.guessed:
            caveats.append(f"{self.guessed:,} trials guessed from other settings")
        if unknown:
            caveats.append(f"{unknown:,} trials of {names} not counted, which never ran here")
        if caveats:
            return f"at least {length}: {'; '.join(caveats)}"
        return f"about {length}, from stored timings"


def predict(
    to_run: Sequence[Trial], planned: Sequence[Trial], stored: Mapping[str, Seconds], jobs: int
) -> Prediction:
    """Predict the time of trials without a stored outcome.

    Shared fits are counted once for all trials on the same data.

    Parameters
    ----------
    to_run : the trials.
    planned : all trials of the plan, from whose stored timings others are scaled.
    stored : mean seconds of similar stored trials, by key.
    jobs : number of trials at once.
    """
    seconds = _TrialSeconds()
    for trial in planned:
        if trial.key in stored:
            seconds.learn(trial, stored[trial.key])
    own: dict[tuple[int, int], float] = defaultdict(float)
    dearest: dict[tuple[int, int], float] = defaultdict(float)
    guessed, unknown = 0, Counter[str]()
    for trial in to_run:
        expected = seconds.expected(trial)
        if expected is None:
            unknown[trial.estimator.label or trial.estimator.id] += 1
            continue
        data = id(trial.environment), trial.replicate
        own[data] += expected.own
        # The trial that is charged for a shared fit may not be among the trials to run.
        dearest[data] = max(dearest[data], expected.whole)
        guessed += expected.guessed
    total = sum(max(spent, dearest[data]) for data, spent in own.items())
    return Prediction(
        seconds=total / max(jobs, 1),
        stored=sum(trial.key in stored for trial in to_run),
        guessed=guessed,
        unknown=unknown,
    )


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
    """Remaining time of a run, from the times of its trials so far.

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
        self._seconds = _TrialSeconds()
        # The remaining trials of each cell; a cell's trials differ in their replicate alone.
        self._cells: dict[tuple[int, int, str, bool], Trial] = {}
        self._left: Counter[tuple[int, int, str, bool]] = Counter()
        for trial in trials:
            self._left[self._cell(trial)] += 1
            self._cells.setdefault(self._cell(trial), trial)

    def finished(self, trial: Trial, seconds: float) -> None:
        """Remove a finished trial and learn its time."""
        self.dropped(trial)
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
            rest += left * expected.own / (1 if alone else self.jobs)
            guessed |= expected.guessed
        return Remaining(rest, guessed)

    def _cell(self, trial: Trial) -> tuple[int, int, str, bool]:
        return id(trial.environment), id(trial.estimator), trial.device, self._alone(trial)
