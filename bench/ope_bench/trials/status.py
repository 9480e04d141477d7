"""The statuses of trials and their attributes."""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple, Self

__all__ = ["Retry", "Severity", "Status"]

Retry = Literal["failed", "all"]
"""The stored outcomes that a run replaces: broken ones, or all."""


class Severity(enum.IntEnum):
    """Severity of an outcome; larger is worse."""

    FINE = 0
    """A finite estimate."""
    WARNING = 1
    """A result without an estimate."""
    BROKEN = 2
    """A failure; a run with one exits with 3."""
    NOT_RUN = 3
    """Nothing was computed, so nothing can be compared."""


class _Meaning(NamedTuple):
    severity: Severity
    is_answer: bool = True
    limit: Literal["timeout", "memory"] | None = None


_FAILURE = _Meaning(Severity.BROKEN)


class Status(enum.StrEnum):
    """The outcome of a trial.

    Attributes
    ----------
    severity : severity of the outcome.
    is_answer : the code gives the same outcome on every machine; the outcome of a trial that was
        stopped from outside may differ elsewhere.
    limit : the limit that the trial exceeded; with a larger one the outcome may differ.
    broken : a run with this outcome exits with 3.
    tried : the estimator ran: failure rates are shares of such trials.
    """

    severity: Severity
    is_answer: bool
    limit: Literal["timeout", "memory"] | None
    broken: bool
    tried: bool

    OK = "ok", _Meaning(Severity.FINE)
    POSITIVITY = "positivity", _Meaning(Severity.WARNING)
    NONFINITE = "nonfinite", _FAILURE
    ERROR = "error", _FAILURE
    TIMEOUT = "timeout", _Meaning(Severity.BROKEN, is_answer=False, limit="timeout")
    MEMORY = "memory", _Meaning(Severity.BROKEN, is_answer=False, limit="memory")
    CRASH = "crash", _Meaning(Severity.BROKEN, is_answer=False)
    UNAVAILABLE = "unavailable", _Meaning(Severity.NOT_RUN, is_answer=False)

    def __new__(cls, word: str, meaning: _Meaning = _FAILURE) -> Self:
        """Make a member; the default lets type checkers accept the call Status("ok")."""
        status = str.__new__(cls, word)
        status._value_ = word
        status.severity, status.is_answer, status.limit = meaning
        status.broken = status.severity is Severity.BROKEN
        status.tried = status.severity is not Severity.NOT_RUN
        return status
