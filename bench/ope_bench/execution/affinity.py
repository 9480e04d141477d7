"""Which slot runs what next: trials on the same data stay together while there is choice."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby

from ope_bench.devices import is_batched
from ope_bench.records import Trial

__all__ = ["Affinity"]


class Affinity:
    """A queue of trials for several slots.

    A slot that begins with some data takes all trials on them, so that they are sampled once and
    fits are shared; where no other data are left it takes over half of what the busiest slot has
    before it. A block of replicates that are trained together is never divided: each part would
    train all of it.

    Parameters
    ----------
    trials : those of a group stand together.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._groups = deque(
            deque(group) for _, group in groupby(trials, key=lambda trial: trial.group)
        )
        self._owned: dict[int, deque[Trial]] = {}

    def take(self, slot: int) -> Trial | None:
        """The next trial for a slot, None when all are taken."""
        mine = self._owned.setdefault(slot, deque())
        if not mine:
            mine = self._owned[slot] = self._groups.popleft() if self._groups else self._half()
        return mine.popleft() if mine else None

    def put_back(self, slot: int, trial: Trial) -> None:
        """A trial that was taken but not begun."""
        self._owned.setdefault(slot, deque()).appendleft(trial)

    def take_block(self, slot: int, trial: Trial) -> list[Trial]:
        """What a slot has before it of a trial's estimator in its block."""
        mine = self._owned.setdefault(slot, deque())
        asked = trial.group, trial.estimator
        block = [one for one in mine if (one.group, one.estimator) == asked]
        self._owned[slot] = deque(one for one in mine if (one.group, one.estimator) != asked)
        return block

    def _half(self) -> deque[Trial]:
        shared = [mine for mine in self._owned.values() if mine and not is_batched(mine[0].device)]
        taken: deque[Trial] = deque()
        if shared:
            busiest = max(shared, key=len)
            for _ in range((len(busiest) + 1) // 2):
                taken.appendleft(busiest.pop())
        return taken
