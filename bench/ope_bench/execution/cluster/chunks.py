"""Cut trials into chunks: long enough to hide latency, short enough to balance load."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from ope_bench.execution.trial_queue import TrialQueue
from ope_bench.trials.record import Trial

__all__ = ["Cell", "Chunks"]

TARGET = 0.5
"""Seconds of work in a chunk: a hundred times what sending one costs."""

MOST = 256

Cell = tuple[str, str, str]
"""Environment, estimator, device."""


class Chunks:
    """A queue that hands out several trials at once.

    A chunk has one trial of a kind without known times, and a whole block of replicates that are
    trained together. Toward the end chunks get smaller, so that no slot waits for the last chunk
    of another.

    Parameters
    ----------
    trials : the trials; those of a group are adjacent.
    seconds : mean time of trials by kind, updated during the run; the kind of a trial is its
        `Cell`.
    """

    def __init__(self, trials: Sequence[Trial], seconds: dict[Cell, float]) -> None:
        self.left = len(trials)
        self.losses: Counter[str] = Counter()
        """How many workers were lost while they may have run a trial, by key."""
        self._queue = TrialQueue(trials)
        self._suspects: deque[list[Trial]] = deque()
        self._seconds = seconds

    def take(self, slot: int, slots: int) -> list[Trial]:
        """Return the next chunk for one of the slots, empty when none is left."""
        chunk = self._taken(slot, min(MOST, math.ceil(self.left / (2 * slots))))
        if not chunk and self._suspects:
            # Suspects run last, so that a trial that kills its worker delays no other trial.
            chunk = self._suspects.popleft()
        self.left -= len(chunk)
        return chunk

    def _taken(self, slot: int, most: int) -> list[Trial]:
        chunk: list[Trial] = []
        seconds = 0.0
        while (trial := self._queue.take(slot)) is not None:
            expected = self._seconds.get(_cell(trial), TARGET)
            full = len(chunk) >= most or seconds + expected > TARGET
            if chunk and (trial.device.batched or full) and not _together(chunk[-1], trial):
                self._queue.put_back(slot, trial)
                break
            chunk.append(trial)
            seconds += expected
        return chunk

    def expected(self, trials: Iterable[Trial]) -> float:
        """Predict the seconds of trials; infinite where unknown."""
        return sum(self._seconds.get(_cell(trial), math.inf) for trial in trials)

    def put_back(self, slot: int, trials: Sequence[Trial]) -> None:
        """Put back trials that were taken but not started."""
        for trial in reversed(trials):
            self._queue.put_back(slot, trial)
        self.left += len(trials)

    def lost(self, trials: Sequence[Trial], most: int) -> list[Trial]:
        """Record trials of which one may have killed its worker.

        Each runs alone from now on, to find the one; returns those that were lost ``most`` times
        and are not retried.
        """
        self.losses.update(trial.key for trial in trials)
        gone = [trial for trial in trials if self.losses[trial.key] >= most]
        rest = [trial for trial in trials if self.losses[trial.key] < most]
        if rest and rest[0].device.batched:
            self._suspects.append(rest)
        else:
            self._suspects += ([trial] for trial in rest)
        self.left += len(rest)
        return gone

    def learned(self, trial: Trial, seconds: float) -> None:
        """Record the time of a trial."""
        cell = _cell(trial)
        known = self._seconds.get(cell, seconds)
        self._seconds[cell] = (known + seconds) / 2


def _together(one: Trial, other: Trial) -> bool:
    return one.device.batched and one.group == other.group


def _cell(trial: Trial) -> Cell:
    return trial.environment.identity_json, trial.estimator.identity_json, trial.device
