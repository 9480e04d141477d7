"""Run checks: as pytest parameters, as pairs of name and callable, or as a list of results.

A check is a function of a plugin under test; its name is a sentence.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Generic, Literal, NoReturn, TypeVar

from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.contracts.parameters import Parametrized, signature
from ope_bench.contracts.plugins import Environment
from ope_bench.plugins.registry import GROUPS, registry
from ope_bench.plugins.requirements import explain, message_of, traceback_of
from ope_bench.trials.isolation import thread_limit

P = TypeVar("P", bound=Parametrized)
S = TypeVar("S", bound="UnderTest[Any]")
Check = Callable[[S], None]
"""A function named by a sentence; CheckFailed says with numbers what is wrong and what to do."""

N_SAMPLES = 400
"""Rows that environments sample, unless their ``check_params`` say otherwise."""

TIMED_OUT = "it took longer than"
ON_TIMEOUT = "set smaller parameters in the class attribute `check_params`, or give --timeout"

Result = Literal["passed", "failed", "advice", "skipped", "expected failure", "unexpected pass"]


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


class CheckAdvice(CheckFailed):
    """A failure of a built-in, advice to other plugins; pytest passes over it."""


class CheckTimeout(BaseException):
    """A check took longer than its limit; no ``except Exception`` of a plugin may catch it."""


class NotApplicable(unittest.SkipTest):
    """The check does not apply to this plugin, or cannot be run here."""


def require(holds: object, message: str) -> None:
    """Raise CheckFailed with the message unless the condition holds."""
    if not holds:
        raise CheckFailed(message)


def applies(holds: object, message: str) -> None:
    """Raise NotApplicable with the message unless the condition holds."""
    if not holds:
        raise NotApplicable(message)


def advise(cls: type, holds: object, message: str) -> None:
    """Raise CheckFailed for a built-in class, else CheckAdvice, unless the condition holds."""
    if not holds:
        target = f"{cls.__module__}:{cls.__qualname__}"
        plugins = (plugin for kind in GROUPS for plugin in registry().plugins(kind))
        built_ins = {one.target for one in plugins if one.reference.startswith("ope-bench:")}
        raise (CheckFailed if target in built_ins else CheckAdvice)(message)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Parameters
    ----------
    name : name of the check.
    result : one of the words of `Result`; ``failed`` and ``unexpected pass`` are bad.
    message : what is wrong or missing and what to do, or the reason of a skip or an expected
        failure.
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


class UnderTest(Generic[P]):
    """A plugin under test: its class, and small parameters with which checks are quick.

    Parameters that were left at their defaults are those of the class's ``check_params``.

    Parameters
    ----------
    plugin : an object, which is copied.
    expected_failures : reasons by check name, in addition to those that its class declares.
    """

    def __init__(self, plugin: P, expected_failures: Mapping[str, str] | None = None) -> None:
        self.cls: type[Any] = type(plugin)
        self.computed: dict[tuple[object, ...], Any] = {}
        self.expected_failures = {**self.cls.expected_failures, **(expected_failures or {})}
        # A constructor's mistake may break the repr.
        try:
            self.label = repr(plugin)
        except Exception:
            self.label = self.cls.__name__
        self.params: dict[str, Any] = plugin.get_params(deep=False)
        quick = dict(self.cls.check_params)
        if isinstance(plugin, Environment) and "n_samples" in self.params:
            quick.setdefault("n_samples", N_SAMPLES)
        for name, parameter in signature(self.cls).items():
            value = self.params[name]
            if name in quick and (value is parameter.default or value == parameter.default):
                self.params[name] = quick[name]

    def make(self) -> P:
        """Return a fresh copy."""
        made: P = self.cls(**self.params)
        return made

    def explain_exception(self, exc: Exception) -> str:
        """Return an exception's message with what to do and the plugin's line that raised it."""
        file = getattr(sys.modules.get(self.cls.__module__), "__file__", None)
        return explain(message_of(exc), traceback_of(exc), file)


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

    def __init__(self, cases: Sequence[S], checks: Sequence[Check[S]]) -> None:
        self.cases = cases
        self.checks = checks
        known = [check.__name__ for check in checks]
        for case in cases:
            for name in case.expected_failures:
                if name not in known:
                    msg = f"{case.label} expects '{name}' to fail; no check has that name"
                    raise UsageError(msg + did_you_mean(name, known))

    def __iter__(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for name, case, check in self._named():
            yield name, _bound(check, case)

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """Parametrize a pytest function over the checks."""
        import pytest

        parameters = []
        for name, case, check in self._named():
            reason = case.expected_failures.get(check.__name__)
            marks = []
            bound = _bound(check, case, strict=reason is not None)
            if reason is not None:
                marks.append(pytest.mark.xfail(strict=True, raises=CheckFailed, reason=reason))
            parameters.append(pytest.param(bound, id=name, marks=marks))
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
        for name, case, check in self._named():
            yield CheckRun(name, partial(_result, name, check, case, timeout))

    def _named(self) -> Iterator[tuple[str, S, Check[S]]]:
        for case in self.cases:
            prefix = "" if len(self.cases) == 1 else f"{case.label}-"
            for check in self.checks:
                yield prefix + check.__name__, case, check


def _bound(check: Check[S], subject: S, *, strict: bool = False) -> Callable[[], None]:
    """Return a call of the check; without ``strict`` it passes over advice."""

    def run() -> None:
        passed_over = () if strict else (CheckAdvice,)
        # One thread, as in trials: many threads are slow on small problems, and change sums.
        with thread_limit(1), contextlib.suppress(*passed_over):
            check(subject)

    run.__name__ = check.__name__
    run.__doc__ = check.__doc__
    return run


def _result(name: str, check: Check[S], case: S, timeout: float | None) -> CheckResult:
    """Run one check."""
    start = time.perf_counter()
    expected = case.expected_failures.get(check.__name__)
    result: Result = "passed"
    message = reason = ""
    try:
        # Warnings are no failures here; under pytest the author's filters decide.
        with warnings.catch_warnings(), time_limit(timeout):
            warnings.simplefilter("ignore")
            _bound(check, case, strict=True)()
    except NotApplicable as exc:
        result, message = "skipped", str(exc)
    except CheckTimeout:
        result, message = "failed", f"{TIMED_OUT} {timeout:g} s; {ON_TIMEOUT}"
    except CheckFailed as exc:
        result, message, reason = "failed", str(exc), exc.reason
        if expected is not None:
            result, message, reason = "expected failure", expected, ""
        elif isinstance(exc, CheckAdvice):
            result = "advice"
    else:
        if expected is not None:
            result = "unexpected pass"
            message = f"it was declared to fail ({expected}); remove the declaration"
    return CheckResult(name, result, message, time.perf_counter() - start, reason or message)


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
