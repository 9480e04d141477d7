"""Every exception that ope-bench raises on purpose.

OpeBenchError
├── UsageError              a user's mistake: one line on stderr, exit code 2
│   ├── ParameterError      a parameter is unknown, of the wrong type or out of range
│   ├── PluginError         an id is unknown, ambiguous, or its plugin cannot be loaded
│   ├── SuiteError          a suite file is wrong (file, line, what to do)
│   └── StoreError          a store is missing, foreign, newer, locked or not writable
├── DataError               arrays that do not fit the contract (an environment's or plugin's bug)
├── AccessError             an estimator touched what it did not declare
├── UnavailableError        the environment, the device or an extra lacks what a trial needs
└── PositivityViolation     no finite estimate: the target policy needs what the logs lack

The message says what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "AccessError",
    "DataError",
    "OpeBenchError",
    "ParameterError",
    "PluginError",
    "PositivityViolation",
    "StoreError",
    "SuiteError",
    "UnavailableError",
    "UsageError",
    "did_you_mean",
]


class OpeBenchError(Exception):
    """Base of all exceptions of ope-bench."""


class UsageError(OpeBenchError):
    """A user's mistake; the command line prints its one line and exits with 2."""


class ParameterError(UsageError):
    """A parameter is unknown, of the wrong type, or out of range."""


class PluginError(UsageError):
    """An id is unknown, ambiguous, or its plugin cannot be loaded."""


class SuiteError(UsageError):
    """A suite file is wrong."""


class StoreError(UsageError):
    """A store is missing, foreign, newer than this version, locked or not writable."""


class DataError(OpeBenchError, ValueError):
    """An array does not fit the contract."""


class AccessError(OpeBenchError, AttributeError):
    """An estimator touched something that its declared access does not cover."""


class UnavailableError(OpeBenchError):
    """The environment, the device or an extra lacks what a trial needs."""


class PositivityViolation(OpeBenchError):  # noqa: N818  a result of the field, not an error of ours
    """No finite estimate exists: the target policy needs what the logs do not support.

    A result, not a bug: the trial's status is ``positivity``.

    Parameters
    ----------
    message : what was missing.
    unsupported_mass : share of the target policy's mass without support, if known.
    fallback : what the estimator would have said; lets a board judge whether the
        warning was right.
    """

    def __init__(
        self,
        message: str,
        *,
        unsupported_mass: float | None = None,
        fallback: float | None = None,
    ) -> None:
        super().__init__(message)
        self.unsupported_mass = unsupported_mass
        self.fallback = fallback

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_violation, (str(self), self.unsupported_mass, self.fallback)


def _restore_violation(
    message: str, unsupported_mass: float | None, fallback: float | None
) -> PositivityViolation:
    return PositivityViolation(message, unsupported_mass=unsupported_mass, fallback=fallback)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'epws'?"`` or, where nothing is near, the empty string.

    >>> did_you_mean("ipv", ["ipw", "dm"])
    "; did you mean 'ipw'?"
    """
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
