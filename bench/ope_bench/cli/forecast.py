"""How long the rest will take, from what like trials took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from ope_bench.records import Trial

__all__ = ["Forecast", "predicted_seconds"]

Kind = tuple[int, int, str]


class Forecast:
    """Remaining seconds of a run, by the mean of each cell.

    A cell that has not been seen takes what its estimator took elsewhere, else the overall mean.

    Parameters
    ----------
    trials : that are left.
    jobs : that run side by side.
    """

    def __init__(self, trials: Iterable[Trial], jobs: int) -> None:
        self.jobs = max(jobs, 1)
        self._left = Counter(map(_kind, trials))
        self._seen: dict[Kind, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def finished(self, trial: Trial, seconds: float) -> None:
        """One trial less; it took so long."""
        self.dropped(trial)
        self.learned(trial, seconds)

    def learned(self, trial: Trial, seconds: float) -> None:
        """A trial that is not among the rest took so long."""
        known = self._seen[_kind(trial)]
        known[0] += 1
        known[1] += seconds

    def dropped(self, trial: Trial) -> None:
        """One trial less that says nothing of time."""
        kind = _kind(trial)
        self._left[kind] -= 1
        if self._left[kind] <= 0:
            del self._left[kind]

    def seconds(self) -> float | None:
        """The rest; None before anything is known."""
        if not self._seen:
            return None
        by_estimator: dict[tuple[int, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        total = [0.0, 0.0]
        for (_, estimator, device), (count, seconds) in self._seen.items():
            for known in (by_estimator[estimator, device], total):
                known[0] += count
                known[1] += seconds
        rest = 0.0
        for kind, count in self._left.items():
            known = self._seen.get(kind) or by_estimator.get(kind[1:]) or total
            rest += count * known[1] / known[0]
        return rest / self.jobs


def _kind(trial: Trial) -> Kind:
    # Specs are shared by all trials of a manifest, so that their identity is the cell's.
    return id(trial.environment), id(trial.estimator), trial.device


def predicted_seconds(
    to_run: Iterable[Trial], stored: Mapping[str, float], jobs: int
) -> tuple[float | None, int]:
    """What a dry run tells: seconds for what is to run, and how many trials have no like.

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
    known = 0.0
    for trial in trials:
        if trial.key in stored:
            known += stored[trial.key]
            forecast.learned(trial, stored[trial.key])
    return known / forecast.jobs + (forecast.seconds() or 0.0), len(unknown)
