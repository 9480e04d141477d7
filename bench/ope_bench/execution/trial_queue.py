"""Trial queue that prefers to keep trials on the same data on the same worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby

from ope_bench.trials.record import Trial

__all__ = ["TrialQueue"]


class TrialQueue:
    """A queue of trials for several slots.

    A slot that starts on some data gets all trials on them, so that they are sampled once and fits
    are shared; when no other data are left, it takes half of the queue of the busiest slot. A
    block of replicates that are trained together is never split, because each part would train the
    whole block.

    Parameters
    ----------
    trials : the trials; those of a group are adjacent.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._groups = deque(
            deque(group) for _, group in groupby(trials, key=lambda trial: trial.group)
        )
        self._owned: dict[int, deque[Trial]] = {}

    def take(self, slot: int) -> Trial | None:
        """Return the next trial for a slot, None when none is left."""
        mine = self._owned.setdefault(slot, deque())
        if not mine:
            mine = self._owned[slot] = self._groups.popleft() if self._groups else self._half()
        return mine.popleft() if mine else None

    def put_back(self, slot: int, trial: Trial) -> None:
        """Put back a trial that was taken but not started."""
        self._owned.setdefault(slot, deque()).appendleft(trial)

    def take_block(self, slot: int, trial: Trial) -> list[Trial]:
        """Take the queued trials of the same estimator and block from a slot's queue."""
        mine = self._owned.setdefault(slot, deque())
        asked = trial.group, trial.estimator
        block = [one for one in mine if (one.group, one.estimator) == asked]
        self._owned[slot] = deque(one for one in mine if (one.group, one.estimator) != asked)
        return block

    def _half(self) -> deque[Trial]:
        shared = [mine for mine in self._owned.values() if mine and not mine[0].device.batched]
        taken: deque[Trial] = deque()
        if shared:
            busiest = max(shared, key=len)
            for _ in range((len(busiest) + 1) // 2):
                taken.appendleft(busiest.pop())
        return taken
