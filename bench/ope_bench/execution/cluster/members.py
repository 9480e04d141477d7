"""The workers of a cluster as the coordinator knows them: who may run trials, and where."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ope_bench.execution.cluster.examination import differences, remedy

__all__ = ["Lane", "Members", "refusal"]


@dataclass(eq=False)
class Lane:
    """One slot of a worker.

    Parameters
    ----------
    number : the smallest that was free, as progress shows it.
    worker : its address.
    gpu : for trials on a device, else for those on the CPU.
    flight : numbers of the chunks sent and not answered; the first one runs.
    """

    number: int
    worker: str
    gpu: bool
    flight: list[int] = field(default_factory=list)


class Members:
    """Workers that are known, examined or refused.

    Parameters
    ----------
    here : the coordinator's own findings.
    most : slots for the CPU to use at most, None for all.
    """

    def __init__(self, here: Mapping[str, Any], most: int | None = None) -> None:
        self.here = here
        self.lanes: list[Lane] = []
        self.found: dict[str, Mapping[str, Any]] = {}
        """What the workers in use said."""
        self.refused: dict[str, str] = {}
        """Why a worker is not used."""
        self.asked: set[str] = set()
        """Workers that have not answered yet."""
        self._most = most

    @property
    def known(self) -> set[str]:
        """All that were met and have not gone."""
        return {*self.found, *self.refused, *self.asked}

    def jobs(self) -> int:
        """Trials that may run at once."""
        return len(self.lanes)

    def full(self, lane: Lane) -> bool:
        """Whether the worker has no thread beside those of its lanes."""
        own = [one for one in self.lanes if one.worker == lane.worker and one.gpu is lane.gpu]
        return lane.gpu or len(own) >= self.found[lane.worker]["threads"]

    def answered(self, worker: str, told: Mapping[str, Any] | None, problem: str = "") -> None:
        """A worker's examination has ended: it is used, or refused."""
        self.asked.discard(worker)
        if told is None:
            self.refused[worker] = f"{problem}; {remedy(self.here, None)}"
        elif wrong := differences(self.here, told):
            self.refused[worker] = f"{', '.join(wrong)}; {remedy(self.here, told)}"
        else:
            self.found[worker] = told
            self._open(worker, told["threads"], gpu=False)
            self._open(worker, told["gpus"], gpu=True)

    def _open(self, worker: str, count: int, *, gpu: bool) -> None:
        if self._most is not None and not gpu:
            count = min(count, self._most - sum(not lane.gpu for lane in self.lanes))
        taken = {lane.number for lane in self.lanes}
        free = (number for number in itertools.count() if number not in taken)
        self.lanes += [
            Lane(number, worker, gpu) for number in itertools.islice(free, max(0, count))
        ]

    def refuse(self, worker: str, reason: str) -> list[Lane]:
        """A worker that turned out to be of no use; what it had."""
        lanes = self.gone(worker)
        self.refused[worker] = reason
        return lanes

    def gone(self, worker: str) -> list[Lane]:
        """A worker has left; its lanes, with what was in flight."""
        self.asked.discard(worker)
        self.refused.pop(worker, None)
        self.found.pop(worker, None)
        lanes = [lane for lane in self.lanes if lane.worker == worker]
        self.lanes = [lane for lane in self.lanes if lane.worker != worker]
        return lanes

    def facts(self) -> list[dict[str, Any]]:
        """The machines of the workers in use, equal ones counted."""
        kinds: dict[str, dict[str, Any]] = {}
        for told in self.found.values():
            machine = told["machine"]
            kind = kinds.setdefault(repr(machine), {**machine, "workers": 0, "slots": 0})
            kind["workers"] += 1
            kind["slots"] += told["threads"]
        return list(kinds.values())


def refusal(refused: Mapping[str, str]) -> str:
    """One line for all workers that are not used.

    >>> refusal({"tcp://a:1": "numpy 2.3.0 there, 2.4.1 here; pip install numpy==2.4.1"})
    'worker tcp://a:1: numpy 2.3.0 there, 2.4.1 here; pip install numpy==2.4.1'
    """
    reasons: dict[str, list[str]] = {}
    for worker, reason in refused.items():
        reasons.setdefault(reason, []).append(worker)
    return " | ".join(f"{_names(workers)}: {reason}" for reason, workers in reasons.items())


def _names(workers: Iterable[str]) -> str:
    listed = sorted(workers)
    if len(listed) == 1:
        return f"worker {listed[0]}"
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return f"workers {', '.join(listed[:3])}{more}"
