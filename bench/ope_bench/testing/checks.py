"""Run checks: as pytest parameters, as (name, callable) pairs, or as a list of results."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Generic, Literal, NoReturn, TypeVar

from ope_bench.contracts.parameters.declaration import Parametrized
from ope_bench.errors import UsageError, did_you_mean
from ope_bench.trials.process.threads import pinned

__all__ = ["Subject", "Check", "CheckFailed", "Checks", "NotApplicable", "CheckResult", "require"]

P = TypeVar("P", bound=Parametrized)
S = TypeVar("S")
Check = Callable[[S], None]
"""A function named by a sentence; CheckFailed says with numbers what is wrong and what to do."""

TIMED_OUT = "it took longer than"
ON_TIMEOUT = "set smaller parameters in the class attribute `check_params`, or give --timeout"

Result = Literal["passed", "failed", "skipped", "expected failure", "unexpected pass"]


class CheckFailed(AssertionError):  # noqa: N818  reads as a sentence in a test report
    """The plugin does not satisfy the check.

    Parameters
    ----------
    message : what is wrong, where, and what to do.
    reason : the part of it that other checks may share; the message by default.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class CheckTimeout(BaseException):
    """A check took longer than its limit; no ``except Exception`` of a plugin may catch it."""


class NotApplicable(unittest.SkipTest):
    """The check does not apply to this plugin, or cannot be run here."""


def require(holds: object, message: str) -> None:
    """Raise CheckFailed with the message unless the condition holds."""
    if not holds:
        raise CheckFailed(message)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Parameters
    ----------
    name : name of the check.
    result : one of the words of `Result`; ``failed`` and ``unexpected pass`` are bad.
    message : what is wrong and what to do, or the reason of a skip or an expected failure.
    seconds : duration of the check.
    reason : the part of the message that checks that fail for one reason share.
    """

    name: str
    result: Result
    message: str = ""
    seconds: float = 0.0
    reason: str = ""

    @property
    def timed_out(self) -> bool:
        """Return whether it was stopped; further checks would be, too."""
        return self.result == "failed" and self.message.startswith(TIMED_OUT)

    @property
    def bad(self) -> bool:
        """Return whether the plugin, or the failures that it declares, must change."""
        return self.result in ("failed", "unexpected pass")


@dataclass(frozen=True)
class CheckRun:
    """One check of one plugin, to be run.

    Parameters
    ----------
    name : name of the check.
    run : runs it and returns its result.
    """

    name: str
    run: Callable[[], CheckResult]


@dataclass(frozen=True)
class Subject(Generic[S]):
    """A plugin under test.

    Parameters
    ----------
    label : name in reports.
    subject : the argument of checks.
    expected_failures : reasons by names of the checks that it is known to fail.
    """

    label: str
    subject: S
    expected_failures: Mapping[str, str]


def subjects_of(
    plugins: Iterable[P], under_test: Callable[[P], S], expected_failures: Mapping[str, str] | None
) -> list[Subject[S]]:
    """Return a subject for each plugin.

    Parameters
    ----------
    plugins : objects.
    under_test : wraps an object into the argument of checks.
    expected_failures : reasons by check name, in addition to those that the classes declare.
    """
    return [
        Subject(
            _label(plugin),
            under_test(plugin),
            {**type(plugin).expected_failures, **(expected_failures or {})},
        )
        for plugin in plugins
    ]


def _label(plugin: object) -> str:
    """Return the plugin's repr, or its class where a constructor's mistake breaks the repr."""
    try:
        return repr(plugin)
    except Exception:
        return type(plugin).__name__


class Checks(Generic[S]):
    """All checks of all given plugins.

    Iterating gives ``(name, callable)``; as a decorator it parametrizes a pytest function that
    takes ``check``; `outcomes` runs them. A check that passes although its failure was declared
    counts as failed.

    Parameters
    ----------
    cases : the plugins.
    checks : the functions, in the order of running.

    Raises
    ------
    UsageError : an expected failure names an unknown check.
    """

    def __init__(self, cases: Sequence[Subject[S]], checks: Sequence[Check[S]]) -> None:
        self.cases = cases
        self.checks = checks
        known = [check.__name__ for check in checks]
        for case in cases:
            for name in case.expected_failures:
                if name not in known:
                    msg = f"{case.label} expects '{name}' to fail; no check has that name"
                    raise UsageError(msg + did_you_mean(name, known))

    def __iter__(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for case, check in self._pairs():
            yield self._name(case, check), _bound(check, case.subject)

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """Parametrize a pytest function over the checks."""
        import pytest

        parameters = []
        for case, check in self._pairs():
            reason = case.expected_failures.get(check.__name__)
            marks = []
            if reason is not None:
                marks.append(pytest.mark.xfail(strict=True, raises=CheckFailed, reason=reason))
            bound = _bound(check, case.subject)
            parameters.append(pytest.param(bound, id=self._name(case, check), marks=marks))
        marked: Callable[..., Any] = pytest.mark.parametrize("check", parameters)(test)
        return marked

    def outcomes(self, timeout: float | None = None) -> Iterator[CheckResult]:
        """Run the checks and yield their results; one that takes too long is the last.

        Parameters
        ----------
        timeout : seconds for each check, as for `runs`.
        """
        for one in self.runs(timeout):
            result = one.run()
            yield result
            if result.timed_out:
                return

    def runs(self, timeout: float | None = None) -> Iterator[CheckRun]:
        """Yield the checks without running them.

        Parameters
        ----------
        timeout : seconds for each check, None for no limit; in the main thread of a system that
            has interval timers, elsewhere there is no limit.
        """
        for case, check in self._pairs():
            name = self._name(case, check)
            yield CheckRun(name, partial(_result, name, check, case, timeout))

    def _pairs(self) -> Iterator[tuple[Subject[S], Check[S]]]:
        for case in self.cases:
            for check in self.checks:
                yield case, check

    def _name(self, case: Subject[S], check: Check[S]) -> str:
        return check.__name__ if len(self.cases) == 1 else f"{case.label}-{check.__name__}"


def _bound(check: Check[S], subject: S) -> Callable[[], None]:
    def run() -> None:
        # One thread, as in trials: many threads are slow on small problems, and change sums.
        with pinned(1):
            check(subject)

    run.__name__ = check.__name__
    run.__doc__ = check.__doc__
    return run


def _result(name: str, check: Check[S], case: Subject[S], timeout: float | None) -> CheckResult:
    """Run one check."""
    start = time.perf_counter()
    result, message, reason = _outcome(check, case, timeout)
    return CheckResult(name, result, message, time.perf_counter() - start, reason or message)


def _outcome(check: Check[S], case: Subject[S], timeout: float | None) -> tuple[Result, str, str]:
    """Return the result, its message, and the reason that other checks may share."""
    expected = case.expected_failures.get(check.__name__)
    try:
        # Warnings are no failures here; under pytest the author's filters decide.
        with warnings.catch_warnings(), time_limit(timeout):
            warnings.simplefilter("ignore")
            _bound(check, case.subject)()
    except NotApplicable as exc:
        return "skipped", str(exc), ""
    except CheckTimeout:
        return "failed", f"{TIMED_OUT} {timeout:g} s; {ON_TIMEOUT}", ""
    except CheckFailed as exc:
        if expected is not None:
            return "expected failure", expected, ""
        return "failed", str(exc), exc.reason
    if expected is not None:
        return (
            "unexpected pass",
            f"it was declared to fail ({expected}); remove the declaration",
            "",
        )
    return "passed", "", ""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise CheckTimeout in the block after some seconds, where the system can.

    Parameters
    ----------
    seconds : None for no limit.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def expire(number: int, frame: FrameType | None) -> NoReturn:
        raise CheckTimeout

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
