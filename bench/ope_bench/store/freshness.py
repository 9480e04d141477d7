"""The rule by which stored records replace planned trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Retry

__all__ = ["Freshness"]


@dataclass(frozen=True)
class Freshness:
    """The rule by which stored records replace planned trials.

    Parameters
    ----------
    code_digest : digest of the current code of the trial.
    exclusive : whether the trial is to run alone.
    timeout, memory : the current limits; a failure at a lower limit runs again.
    retry : run failed trials, or all, again.
    """

    code_digest: Callable[[Trial], str]
    _: KW_ONLY
    exclusive: Callable[[Trial], bool] = lambda trial: False
    timeout: float | None = None
    memory: int | None = None
    retry: Retry | None = None

    def accepts(self, record: TrialRecord, timeout: float | None, memory: float | None) -> bool:
        """Return whether a record that was made under these limits may replace the trial."""
        status = record.status
        limits = {"timeout": (timeout, self.timeout), "memory": (memory, self.memory)}
        return not (
            not status.tried
            or (self.retry == "failed" and status.broken)
            or (status.limit is not None and _grew(*limits[status.limit]))
            or (self.exclusive(record.trial) and not record.exclusive)
        )


def _grew(before: float | None, now: float | None) -> bool:
    return before is not None and (now is None or now > before)
