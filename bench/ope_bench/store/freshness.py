"""When a stored record may stand for a planned trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ope_bench.records import Status, Trial, TrialRecord

__all__ = ["Freshness", "Retry"]

Retry = Literal["failed", "all"]


@dataclass(frozen=True)
class Freshness:
    """When a stored record may stand for a planned trial.

    Parameters
    ----------
    code_digest : of the code that would answer now.
    exclusive : whether the trial is to run alone.
    timeout, memory : the limits now; a failure at a lower limit is run again.
    retry : run failed ones, or all, again.
    """

    code_digest: Callable[[Trial], str]
    exclusive: Callable[[Trial], bool] = lambda trial: False
    timeout: float | None = None
    memory: int | None = None
    retry: Retry | None = None

    def accepts(self, record: TrialRecord, timeout: float | None, memory: float | None) -> bool:
        """Whether a record, made under these limits by the current code, may stand."""
        status = record.status
        return not (
            status is Status.UNAVAILABLE
            or (self.retry == "failed" and status.broken)
            or (status is Status.TIMEOUT and _grew(timeout, self.timeout))
            or (status is Status.MEMORY and _grew(memory, self.memory))
            or (self.exclusive(record.trial) and not record.exclusive)
        )


def _grew(before: float | None, now: float | None) -> bool:
    return before is not None and (now is None or now > before)
