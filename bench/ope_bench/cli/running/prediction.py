"""Predict the time of trials before they run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ope_bench.cli.running.reference import reference_table
from ope_bench.cli.running.trial_seconds import TrialSeconds
from ope_bench.store import Seconds
from ope_bench.trials.record import Trial
from ope_bench.units import format_estimate

__all__ = ["Prediction", "predict"]

NAMES_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The expected time of trials that have not run.

    Parameters
    ----------
    seconds : of those whose time is known or guessed.
    stored : number of trials whose cell has stored timings.
    guessed : number of trials whose time comes from other sizes or parameters.
    unknown : number of trials of which nothing is known, by estimator.
    """

    seconds: float = 0.0
    stored: int = 0
    guessed: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Prediction) -> Prediction:
        return Prediction(
            seconds=self.seconds + other.seconds,
            stored=self.stored + other.stored,
            guessed=self.guessed + other.guessed,
            unknown=Counter(self.unknown) + Counter(other.unknown),
        )

    def as_text(self, trials: int) -> str:
        """Say how long it takes, and how much of that is guessed.

        Parameters
        ----------
        trials : number of all predicted trials.
        """
        unknown = sum(self.unknown.values())
        names = ", ".join([*self.unknown][:NAMES_SHOWN])
        more = len(self.unknown) - NAMES_SHOWN
        names += f" and {more} more" if more > 0 else ""
        if trials and unknown == trials:
            return f"unknown: {names} never ran here"
        told = []
        if self.guessed:
            told.append(f"{self.guessed:,} trials guessed from other sizes or parameters")
        if unknown:
            told.append(f"{unknown:,} trials of {names} not counted, which never ran here")
        length = format_estimate(self.seconds)
        if told:
            return f"at least {length}: {'; '.join(told)}"
        measured = self.stored == trials
        source = "stored timings" if measured else "timings of another machine, scaled to this one"
        return f"about {length}, from {source}" if trials else f"about {length}"


def predict(
    to_run: Sequence[Trial],
    planned: Sequence[Trial],
    stored: Mapping[str, Seconds],
    jobs: int,
    unit_seconds: Callable[[], float],
) -> Prediction:
    """Predict the time of trials without a stored outcome.

    Shared fits are counted once for all trials on the same data.

    Parameters
    ----------
    to_run : the trials.
    planned : all trials of the plan, from whose stored timings others are scaled.
    stored : mean seconds of similar stored trials, by key.
    jobs : number of trials at once.
    unit_seconds : measures `calibration_seconds`; not called where all timings are stored.
    """
    known = all(trial.key in stored for trial in to_run)
    table = reference_table()
    seconds = TrialSeconds(table, None if known else unit_seconds())
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
        if data not in own:
            own[data] = table.sampling(trial.environment) * (seconds.unit_seconds or 0.0)
        own[data] += expected.seconds.own
        # The trial that is charged for a shared fit may not be among the trials to run.
        dearest[data] = max(dearest[data], expected.seconds.whole)
        guessed += expected.guessed
    total = sum(max(spent, dearest[data]) for data, spent in own.items())
    return Prediction(
        seconds=total / max(jobs, 1),
        stored=sum(trial.key in stored for trial in to_run),
        guessed=guessed,
        unknown=unknown,
    )
