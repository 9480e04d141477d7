"""How long the rest will take, from what like trials took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from ope_bench.records import Trial
from ope_bench.store import Seconds

__all__ = ["Forecast", "predicted_seconds"]

Kind = tuple[int, int, str, bool]


class Forecast:
    """Remaining seconds of a run, by the mean of each cell.

    A cell that has not been seen takes what its estimator took elsewhere, else the overall mean.

    Parameters
    ----------
    trials : that are left.
    jobs : that run side by side.
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
        self._left = Counter(map(self._kind, trials))
        self._seen: dict[Kind, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def finished(self, trial: Trial, seconds: float) -> None:
        """One trial less; it took so long."""
        self.dropped(trial)
        self.learned(trial, seconds)

    def learned(self, trial: Trial, seconds: float) -> None:
        """A trial that is not among the rest took so long."""
        known = self._seen[self._kind(trial)]
        known[0] += 1
        known[1] += seconds

    def dropped(self, trial: Trial) -> None:
        """One trial less that says nothing of time."""
        kind = self._kind(trial)
        self._left[kind] -= 1
        if self._left[kind] <= 0:
            del self._left[kind]

    def seconds(self) -> float | None:
        """The rest; None before anything is known."""
        if not self._seen:
            return None
        pooled: dict[tuple[object, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for kind, (count, seconds) in self._seen.items():
            for likeness in _likenesses(kind):
                pooled[likeness][0] += count
                pooled[likeness][1] += seconds
        rest = 0.0
        for kind, left in self._left.items():
            count, seconds = next(pooled[one] for one in _likenesses(kind) if one in pooled)
            rest += left * seconds / count / (1 if kind[3] else self.jobs)
        return rest

    def _kind(self, trial: Trial) -> Kind:
        # Specs are shared by all trials of a manifest, so that their identity is the cell's.
        return id(trial.environment), id(trial.estimator), trial.device, self._alone(trial)


def _likenesses(kind: Kind) -> tuple[tuple[object, ...], ...]:
    """From the nearest to the farthest: the same lane, cell, estimator, anything."""
    return kind, kind[:3], kind[1:3], ()


def predicted_seconds(
    to_run: Iterable[Trial], stored: Mapping[str, Seconds], jobs: int
) -> tuple[float | None, int]:
    """What a dry run tells: seconds for what is to run, and how many trials have no like.

    Fits that trials on the same data share are made once, by one of them.

    Parameters
    ----------
    to_run : trials without a stored outcome.
    stored : mean seconds of stored trials like these, by key.
    jobs : that run side by side.
    """
    trials = list(to_run)
    unknown = [trial for trial in trials if trial.key not in stored]
    if len(unknown) == len(trials):
        return (None if trials else 0.0), len(unknown)
    forecast = Forecast(unknown, jobs)
    own: dict[tuple[int, int], float] = defaultdict(float)
    dearest: dict[tuple[int, int], float] = defaultdict(float)
    for trial in trials:
        if trial.key in stored:
            data, seconds = (id(trial.environment), trial.replicate), stored[trial.key]
            own[data] += seconds.own
            dearest[data] = max(dearest[data], seconds.whole)
            forecast.learned(trial, seconds.own)
    # Whoever paid for the shared fits before may not be among those that run now.
    known = sum(max(spent, dearest[data]) for data, spent in own.items())
    return known / forecast.jobs + (forecast.seconds() or 0.0), len(unknown)
