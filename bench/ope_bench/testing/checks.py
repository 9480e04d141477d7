"""Running checks: as pytest parameters, as (name, callable) pairs, or to outcomes."""

from __future__ import annotations

import time
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from ope_bench.errors import UsageError, did_you_mean
from ope_bench.execution.threads import pinned

__all__ = ["Case", "Check", "CheckFailed", "Checks", "NotApplicable", "Outcome", "require"]

S = TypeVar("S")
Check = Callable[[S], None]
"""A sentence-named function that raises CheckFailed with numbers and with what to do."""

Result = Literal["passed", "failed", "skipped", "expected failure", "unexpected pass"]


class CheckFailed(AssertionError):  # noqa: N818  reads as a sentence in a test report
    """The plugin does not do what the check's name says."""


class NotApplicable(unittest.SkipTest):
    """The check says nothing about this plugin, or cannot be run here."""


def require(holds: object, message: str) -> None:
    """Raise CheckFailed with the message unless the condition holds."""
    if not holds:
        raise CheckFailed(message)


@dataclass(frozen=True)
class Outcome:
    """How one check went.

    Parameters
    ----------
    name : the check's.
    result : ``failed`` and ``unexpected pass`` are the two that must not be.
    message : what is wrong and what to do; the reason of a skip or an expected failure.
    seconds : what it took.
    """

    name: str
    result: Result
    message: str = ""
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        """Whether the plugin has to change, or what it declares to fail."""
        return self.result in ("failed", "unexpected pass")


@dataclass(frozen=True)
class Case(Generic[S]):
    """A plugin under examination.

    Parameters
    ----------
    label : how reports call it.
    subject : what checks are given.
    expected_failures : reasons by the names of the checks that it is known to fail.
    """

    label: str
    subject: S
    expected_failures: Mapping[str, str]


class Checks(Generic[S]):
    """All checks on all given plugins.

    Iterating gives ``(name, callable)``; as a decorator it parametrizes a pytest function that
    takes ``check``; `outcomes` runs them. A failure that was expected and does not come is a
    failure.

    Parameters
    ----------
    cases : the plugins.
    checks : the functions, in the order in which they are run.

    Raises
    ------
    UsageError : an expected failure names no check.
    """

    def __init__(self, cases: Sequence[Case[S]], checks: Sequence[Check[S]]) -> None:
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

    def outcomes(self) -> Iterator[Outcome]:
        """Run them, one outcome at a time."""
        for case, check in self._pairs():
            start = time.perf_counter()
            result, message = _outcome(check, case)
            seconds = time.perf_counter() - start
            yield Outcome(self._name(case, check), result, message, seconds)

    def _pairs(self) -> Iterator[tuple[Case[S], Check[S]]]:
        for case in self.cases:
            for check in self.checks:
                yield case, check

    def _name(self, case: Case[S], check: Check[S]) -> str:
        return check.__name__ if len(self.cases) == 1 else f"{case.label}-{check.__name__}"


def _bound(check: Check[S], subject: S) -> Callable[[], None]:
    def run() -> None:
        # As a trial runs: a crowd of threads on small problems is slow, and sums differ.
        with pinned(1):
            check(subject)

    run.__name__ = check.__name__
    run.__doc__ = check.__doc__
    return run


def _outcome(check: Check[S], case: Case[S]) -> tuple[Result, str]:
    reason = case.expected_failures.get(check.__name__)
    try:
        # A warning is no failure here; under pytest the author's own filters decide.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _bound(check, case.subject)()
    except NotApplicable as exc:
        return "skipped", str(exc)
    except CheckFailed as exc:
        return ("failed", str(exc)) if reason is None else ("expected failure", reason)
    if reason is not None:
        return "unexpected pass", f"it was declared to fail ({reason}); remove the declaration"
    return "passed", ""
