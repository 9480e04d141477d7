"""How trials are cut into chunks: long enough to hide the scheduler, short enough to share."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from ope_bench.execution.affinity import Affinity
from ope_bench.records import Trial

__all__ = ["Chunks"]

TARGET = 0.5
"""Seconds of work in a chunk: a hundred times what sending one costs."""

MOST = 256


class Chunks:
    """A queue that hands out several trials at once.

    Of a kind of trial that nobody has run yet a chunk holds one. Towards the end chunks get
    smaller, so that no slot waits for another one's last chunk.

    Parameters
    ----------
    trials : those on the same data stand together.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.left = len(trials)
        self.losses: Counter[str] = Counter()
        """How many workers were lost while they may have run a trial, by key."""
        self._queue = Affinity(trials)
        self._suspects: deque[Trial] = deque()
        self._seconds: dict[tuple[int, int, str], float] = {}

    def take(self, slot: int, slots: int) -> list[Trial]:
        """The next chunk for one of so many slots, empty when all is taken."""
        chunk = self._taken(slot, slots)
        self.left -= len(chunk)
        return chunk

    def expected(self, trials: Iterable[Trial]) -> float:
        """Seconds that trials will take, infinite where nobody knows."""
        return sum(self._seconds.get(_cell(trial), math.inf) for trial in trials)

    def _taken(self, slot: int, slots: int) -> list[Trial]:
        most = min(MOST, math.ceil(self.left / (2 * slots)))
        chunk: list[Trial] = []
        seconds = 0.0
        while len(chunk) < most and (trial := self._queue.take(slot)) is not None:
            seconds += self._seconds.get(_cell(trial), TARGET)
            if chunk and seconds > TARGET:
                self._queue.put_back(slot, trial)
                break
            chunk.append(trial)
        # They come last, one by one: whoever ends workers had better do it then.
        return chunk or ([self._suspects.popleft()] if self._suspects else [])

    def put_back(self, slot: int, trials: Sequence[Trial]) -> None:
        """Trials that were taken and not begun."""
        for trial in reversed(trials):
            self._queue.put_back(slot, trial)
        self.left += len(trials)

    def suspect(self, trials: Iterable[Trial]) -> None:
        """Trials whose worker was lost: each goes alone from now on, to see which it was."""
        for trial in trials:
            self.losses[trial.key] += 1
            self._suspects.append(trial)
            self.left += 1

    def give_up(self, trial: Trial) -> None:
        """A suspect that is not to be tried again."""
        self._suspects.remove(trial)
        self.left -= 1

    def learned(self, trial: Trial, seconds: float) -> None:
        """A trial of this kind took so long."""
        cell = _cell(trial)
        known = self._seconds.get(cell, seconds)
        self._seconds[cell] = (known + seconds) / 2


def _cell(trial: Trial) -> tuple[int, int, str]:
    # A plan's trials share their specs.
    return id(trial.environment), id(trial.estimator), trial.device
