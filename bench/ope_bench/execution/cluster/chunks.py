"""How trials are cut into chunks: long enough to hide the scheduler, short enough to share."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from ope_bench.devices import is_batched
from ope_bench.execution.affinity import Affinity
from ope_bench.records import Trial

__all__ = ["Cell", "Chunks"]

TARGET = 0.5
"""Seconds of work in a chunk: a hundred times what sending one costs."""

MOST = 256

Cell = tuple[str, str, str]
"""Environment, estimator, device."""


class Chunks:
    """A queue that hands out several trials at once.

    Of a kind of trial that nobody has run yet a chunk holds one, of replicates that are trained
    together the whole block. Towards the end chunks get smaller, so that no slot waits for
    another one's last chunk.

    Parameters
    ----------
    trials : those of a group stand together.
    seconds : what trials of a kind take, kept up to date; the kind of a trial is its `Cell`.
    """

    def __init__(self, trials: Sequence[Trial], seconds: dict[Cell, float]) -> None:
        self.left = len(trials)
        self.losses: Counter[str] = Counter()
        """How many workers were lost while they may have run a trial, by key."""
        self._queue = Affinity(trials)
        self._suspects: deque[list[Trial]] = deque()
        self._seconds = seconds

    def take(self, slot: int, slots: int) -> list[Trial]:
        """The next chunk for one of so many slots, empty when all is taken."""
        chunk = self._taken(slot, min(MOST, math.ceil(self.left / (2 * slots))))
        if not chunk and self._suspects:
            # They come last: whoever ends workers had better do it then.
            chunk = self._suspects.popleft()
        self.left -= len(chunk)
        return chunk

    def _taken(self, slot: int, most: int) -> list[Trial]:
        chunk: list[Trial] = []
        seconds = 0.0
        while (trial := self._queue.take(slot)) is not None:
            expected = self._seconds.get(_cell(trial), TARGET)
            full = len(chunk) >= most or seconds + expected > TARGET
            if chunk and (is_batched(trial.device) or full) and not _together(chunk[-1], trial):
                self._queue.put_back(slot, trial)
                break
            chunk.append(trial)
            seconds += expected
        return chunk

    def expected(self, trials: Iterable[Trial]) -> float:
        """Seconds that trials will take, infinite where nobody knows."""
        return sum(self._seconds.get(_cell(trial), math.inf) for trial in trials)

    def put_back(self, slot: int, trials: Sequence[Trial]) -> None:
        """Trials that were taken and not begun."""
        for trial in reversed(trials):
            self._queue.put_back(slot, trial)
        self.left += len(trials)

    def lost(self, trials: Sequence[Trial], most: int) -> list[Trial]:
        """Some of these trials may have ended their worker.

        Each goes alone from now on, to see which it was; the result are those that have been lost
        ``most`` times and are not tried again.
        """
        self.losses.update(trial.key for trial in trials)
        gone = [trial for trial in trials if self.losses[trial.key] >= most]
        rest = [trial for trial in trials if self.losses[trial.key] < most]
        if rest and is_batched(rest[0].device):
            self._suspects.append(rest)
        else:
            self._suspects += ([trial] for trial in rest)
        self.left += len(rest)
        return gone

    def learned(self, trial: Trial, seconds: float) -> None:
        """A trial of this kind took so long."""
        cell = _cell(trial)
        known = self._seconds.get(cell, seconds)
        self._seconds[cell] = (known + seconds) / 2


def _together(one: Trial, other: Trial) -> bool:
    return is_batched(one.device) and one.group == other.group


def _cell(trial: Trial) -> Cell:
    return trial.environment.identity_json, trial.estimator.identity_json, trial.device
