"""The coordinator's list of workers: which may run trials, and their slots."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ope_bench.execution.cluster.compatibility import mismatches, remedy

__all__ = ["WorkerSlot", "Workers", "refusal"]


@dataclass(eq=False)
class WorkerSlot:
    """One slot of a worker.

    Parameters
    ----------
    number : the smallest free number, for the progress display.
    worker : its address.
    gpu : for trials on a GPU, else for those on the CPU.
    in_flight : numbers of the submitted chunks without result; the first one runs.
    """

    number: int
    worker: str
    gpu: bool
    in_flight: list[int] = field(default_factory=list)


class Workers:
    """Known workers: accepted, unchecked or refused.

    Parameters
    ----------
    here : findings of the coordinator.
    most : most slots for the CPU, None for all.
    """

    def __init__(self, here: Mapping[str, Any], most: int | None = None) -> None:
        self.here = here
        self.slots: list[WorkerSlot] = []
        self.found: dict[str, Mapping[str, Any]] = {}
        """What the workers in use said."""
        self.refused: dict[str, str] = {}
        """Why a worker is not used."""
        self.asked: set[str] = set()
        """Workers that have not answered yet."""
        self._most = most

    @property
    def known(self) -> set[str]:
        """Return all workers that are connected."""
        return {*self.found, *self.refused, *self.asked}

    def full(self, slot: WorkerSlot) -> bool:
        """Return whether the worker has no free thread."""
        own = [one for one in self.slots if one.worker == slot.worker and one.gpu is slot.gpu]
        return slot.gpu or len(own) >= self.found[slot.worker]["threads"]

    def accept_or_refuse(
        self, worker: str, answer: Mapping[str, Any] | None, problem: str = ""
    ) -> None:
        """Accept or refuse a worker after its check."""
        self.asked.discard(worker)
        if answer is None:
            self.refused[worker] = f"{problem}; {remedy(self.here, None)}"
        elif wrong := mismatches(self.here, answer):
            self.refused[worker] = f"{', '.join(wrong)}; {remedy(self.here, answer)}"
        else:
            self.found[worker] = answer
            self._open(worker, answer["threads"], gpu=False)
            self._open(worker, answer["gpus"], gpu=True)

    def _open(self, worker: str, count: int, *, gpu: bool) -> None:
        if self._most is not None and not gpu:
            count = min(count, self._most - sum(not slot.gpu for slot in self.slots))
        taken = {slot.number for slot in self.slots}
        free = (number for number in itertools.count() if number not in taken)
        self.slots += [
            WorkerSlot(number, worker, gpu) for number in itertools.islice(free, max(0, count))
        ]

    def refuse(self, worker: str, reason: str) -> list[WorkerSlot]:
        """Refuse a worker; return its chunks in flight."""
        slots = self.remove(worker)
        self.refused[worker] = reason
        return slots

    def remove(self, worker: str) -> list[WorkerSlot]:
        """Remove a worker; return its slots with their chunks in flight."""
        self.asked.discard(worker)
        self.refused.pop(worker, None)
        self.found.pop(worker, None)
        slots = [slot for slot in self.slots if slot.worker == worker]
        self.slots = [slot for slot in self.slots if slot.worker != worker]
        return slots

    def facts(self) -> list[dict[str, Any]]:
        """Return the machines of the workers in use, with counts of equal ones."""
        kinds: dict[str, dict[str, Any]] = {}
        for answer in self.found.values():
            machine = answer["machine"]
            kind = kinds.setdefault(repr(machine), {**machine, "workers": 0, "slots": 0})
            kind["workers"] += 1
            kind["slots"] += answer["threads"]
        return list(kinds.values())


def refusal(refused: Mapping[str, str]) -> str:
    """Describe all refused workers in one line.

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
