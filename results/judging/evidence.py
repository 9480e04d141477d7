"""From errors to lines of evidence, and from lines to a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from judging.trials import Method, Trials
from ope_bench.arrays import FloatArray
from ope_bench.seeding import stream
from ope_bench.statistics.bootstrap import heavy_tailed
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.paired import holm, paired

__all__ = [
    "Line",
    "beats_zero",
    "better",
    "bias",
    "figure",
    "less_spread",
    "never_fails",
    "share_failed",
    "slope",
    "slope_of_ratio",
    "verdict",
]

RESAMPLES = 10_000
LEVEL = 0.05


@dataclass(frozen=True)
class Line:
    """One line of evidence.

    Parameters
    ----------
    what : the comparison, in words: a row of the table.
    where : the setting, or what else its column is called.
    number : figure with its interval.
    p, sign : two-sided p-value and whether the figure lies on the claim's side; for lines judged
        by a test, ratios and slopes.
    decided : for lines judged by an interval, shares and biases: for (True), against (False),
        undecided (None).
    interval : the interval, 95 %, of a slope or ratio.
    """

    what: str
    where: str
    number: str
    p: float | None = None
    sign: bool = True
    decided: bool | None = None
    interval: tuple[float, float] | None = None


def verdict(lines: Sequence[Line]) -> tuple[str, list[bool | None]]:
    """The rule: all lines for, none for, or some of each; Holm's correction over the tests."""
    tested = [line for line in lines if line.p is not None]
    adjusted = holm(np.array([line.p for line in tested], dtype=np.float64))
    low = {id(line): p < LEVEL for line, p in zip(tested, adjusted, strict=True)}
    found = [
        line.decided if line.p is None else (line.sign if low[id(line)] else None)
        for line in lines
    ]
    if all(one is True for one in found):
        word = "holds"
    elif any(one is True for one in found):
        word = "holds with conditions"
    elif any(one is False for one in found):
        word = "does not hold"
    else:
        word = "cannot be judged"
    return word, found


def better(trials: Trials, one: Method, other: Method, settings: Iterable[Any] = ()) -> list[Line]:
    """Whether ``one`` errs less than ``other``, at each setting, on the replicates both answer.

    The figure is the ratio of RMSEs; test and interval are the studentised swap test's.
    """
    lines = []
    for setting in settings or trials.settings:
        a, b = trials.errors(one, setting), trials.errors(other, setting)
        both = np.isfinite(a) & np.isfinite(b)
        what, where = f"{one.name} / {other.name}", _axis(trials, setting)
        if not both.any():
            lines.append(Line(what, where, "no data set that both answer"))
            continue
        of = "" if both.all() else f" ({both.sum()} data sets)"
        lines.append(_ratio(what, where, a[both], b[both], of))
    return lines


def beats_zero(trials: Trials, method: Method, setting: Any) -> Line:
    """Whether a method errs at most half as much as the answer zero, which errs by the value."""
    line = _ratio(
        f"{method.name} / answering zero",
        _axis(trials, setting),
        trials.errors(method, setting),
        trials.truths(setting),
    )
    low, high = line.interval or (0.0, math.inf)
    decided = True if high < 0.5 else False if low > 0.5 else None
    return replace(line, p=None, decided=decided)


def less_spread(trials: Trials, one: Method, other: Method, setting: Any) -> Line:
    """Whether the errors of ``one`` vary less than those of ``other``: the ratio of standard
    deviations, tested as in `better` on errors less their means.
    """
    a, b = trials.errors(one, setting), trials.errors(other, setting)
    what = f"sd of {one.name} / sd of {other.name}"
    return _ratio(what, _axis(trials, setting), a - a.mean(), b - b.mean())


def bias(trials: Trials, method: Method, setting: Any) -> Line:
    """Whether a method is off on average; for where the 95 % t-interval of the bias holds 0.

    Not excluding a bias is no proof of none, so a wide interval cannot speak for the claim: it
    has to lie within a tenth of the root mean square of the truth.
    """
    from scipy.special import stdtrit

    errors = trials.errors(method, setting)
    n = len(errors)
    mean = float(errors.mean())
    reach = float(stdtrit(n - 1, 1 - LEVEL / 2)) * float(errors.std(ddof=1)) / math.sqrt(n)
    tenth = 0.1 * math.sqrt(float(np.square(trials.truths(setting)).mean()))
    small = abs(mean) + reach < tenth
    decided = False if abs(mean) > reach and not small else True if small else None
    number = figure(mean, mean - reach, mean + reach)
    return Line(f"bias of {method.name}", _axis(trials, setting), number, decided=decided)


def share_failed(
    trials: Trials, method: Method, setting: Any, expected: Callable[[float, float], bool | None]
) -> Line:
    """How often a method gave no estimate; ``expected`` judges Wilson's interval."""
    share = wilson(int(np.isnan(trials.errors(method, setting)).sum()), trials.replicates)
    low, high = share.low or 0.0, share.high or 0.0
    number = f"{share.count / share.total:.0%} [{low:.1%}, {high:.1%}]"
    decided = expected(low, high)
    return Line(f"{method.name} fails", _axis(trials, setting), number, decided=decided)


def never_fails(trials: Trials, method: Method) -> list[Line]:
    """Whether fewer than 5 % of a method's trials fail, at each setting."""
    limit = 0.05
    return [
        share_failed(
            trials,
            method,
            setting,
            lambda low, high: True if high < limit else False if low > limit else None,
        )
        for setting in trials.settings
    ]


def slope(trials: Trials, method: Method, *, falls: bool) -> Line:
    """How the RMSE grows along the axis: d log RMSE / d log axis, by least squares."""
    drawn = _slopes(trials, [method])[0]
    return _slope_line(trials, f"slope of {method.name}", drawn, falls, _heavy(trials, [method]))


def slope_of_ratio(trials: Trials, one: Method, other: Method) -> Line:
    """Whether the ratio RMSE(one) / RMSE(other) falls along the axis."""
    drawn = _slopes(trials, [one, other])
    what = f"slope of {one.name} / {other.name}"
    heavy = _heavy(trials, [one, other])
    return _slope_line(trials, what, drawn[0] - drawn[1], True, heavy)


def figure(value: float, low: float | None = None, high: float | None = None) -> str:
    """A figure with its interval, three significant digits; † where no interval would hold."""
    if low is None or high is None:
        return f"{value:.3g} †"
    return f"{value:.3g} [{low:.3g}, {high:.3g}]"


def _ratio(what: str, where: str, one: FloatArray, other: FloatArray, of: str = "") -> Line:
    found = paired(one, other)
    low = None if found.low is None else math.sqrt(found.low)
    high = None if found.high is None else math.sqrt(found.high)
    p = min(1.0, 2 * min(found.p_greater, found.p_less))
    # None: the other's errors are all zero.
    ratio = math.inf if found.ratio is None else math.sqrt(found.ratio)
    interval = None if low is None or high is None else (low, high)
    return Line(what, where, figure(ratio, low, high) + of, p, ratio < 1, interval=interval)


def _axis(trials: Trials, setting: Any) -> str:
    shown = f"{setting:,}" if isinstance(setting, int) else str(setting)
    return f"{trials.axis} = {shown.strip()}"


def _slopes(trials: Trials, methods: Sequence[Method]) -> FloatArray:
    """(methods, 1 + RESAMPLES) slopes; the first as observed. Replicates are drawn together for
    all settings and methods: a replicate's data share their seeds.
    """
    n = trials.replicates
    counts = stream("judging", n).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    weights = np.vstack([np.ones(n), counts]).T
    x = np.log(np.array(trials.settings, dtype=np.float64))
    x = (x - x.mean()) / np.square(x - x.mean()).sum()
    found = np.zeros((len(methods), RESAMPLES + 1))
    for row, method in enumerate(methods):
        for step, setting in zip(x, trials.settings, strict=True):
            squared = np.square(trials.errors(method, setting))
            answered = np.isfinite(squared)
            mean = (squared[answered] @ weights[answered]) / weights[answered].sum(axis=0)
            found[row] += step * np.log(mean) / 2
    return found


def _heavy(trials: Trials, methods: Sequence[Method]) -> bool:
    squared = [np.square(trials.errors(m, s)) for m in methods for s in trials.settings]
    return any(bool(heavy_tailed(one[np.isfinite(one)][None])[0]) for one in squared)


def _slope_line(trials: Trials, what: str, drawn: FloatArray, falls: bool, heavy: bool) -> Line:
    low, high = (float(bound) for bound in np.quantile(drawn[1:], [LEVEL / 2, 1 - LEVEL / 2]))
    # How often a resample's slope has the other sign: the test whose interval this is.
    other = int(min((drawn[1:] <= 0).sum(), (drawn[1:] >= 0).sum()))
    p = min(1.0, 2 * (other + 1) / (RESAMPLES + 1))
    number = figure(float(drawn[0]), low, high) + (" ‡" if heavy else "")
    sign = bool((drawn[0] < 0) == falls)
    return Line(what, f"along {trials.axis}", number, p, sign, interval=(low, high))
