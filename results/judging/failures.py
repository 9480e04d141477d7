"""Lines about how often a method gives no estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from judging.errors import axis_of
from judging.line import Line
from judging.trials import Method, Trials
from ope_bench.statistics.coverage import wilson

__all__ = ["never_fails", "share", "share_failed"]

LIMIT = 0.05


def share(
    what: str, where: str, count: int, total: int, judged: Callable[[float, float], bool | None]
) -> Line:
    """A share with Wilson's interval, which ``judged`` looks at."""
    found = wilson(count, total)
    low, high = found.low or 0.0, found.high or 0.0
    number = f"{count / total:.0%} [{low:.1%}, {high:.1%}]"
    return Line(what, where, number, decided=judged(low, high))


def share_failed(
    trials: Trials, method: Method, setting: Any, judged: Callable[[float, float], bool | None]
) -> Line:
    """How often a method gave no estimate."""
    missing = np.isnan(trials.errors(method, setting))
    where = axis_of(trials, setting)
    return share(f"{method.name} fails", where, int(missing.sum()), len(missing), judged)


def never_fails(trials: Trials, method: Method) -> list[Line]:
    """Whether fewer than 5 % of a method's trials fail, at each setting."""
    return [share_failed(trials, method, setting, below) for setting in trials.settings]


def below(low: float, high: float) -> bool | None:
    """Whether an interval lies below 5 %, above it, or across."""
    return True if high < LIMIT else False if low > LIMIT else None
