"""What the check of a log found."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding", "Runnable"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check of a log.

    Parameters
    ----------
    name : what was checked.
    value : the figure, None where there is none.
    limit : what it is compared with, None for information.
    passed : whether it is within the limit; None for information.
    message : one sentence.
    """

    name: str
    value: float | None = None
    limit: float | None = None
    passed: bool | None = None
    message: str


@dataclass(frozen=True, kw_only=True)
class Runnable:
    """Whether an estimator can evaluate a policy, and what it lacks.

    Parameters
    ----------
    estimator : its id.
    target : name of the policy.
    lacks : what is missing and the line that would give it; empty where it can run.
    """

    estimator: str
    target: str
    lacks: str = ""
