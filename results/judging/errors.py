"""Lines that compare errors: with another method's, and with answers that ignore the target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from judging.line import LEVEL, Line, figure
from judging.trials import Method, Trials
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.paired import Paired, paired
from ope_bench.statistics.tails import heavy_tailed
from ope_bench.statistics.typical import typical

__all__ = [
    "ENOUGH",
    "MARGIN",
    "axis_of",
    "better",
    "bias",
    "covers",
    "heavy",
    "less_spread",
    "never_far",
    "performs_well",
    "ratio",
]

ENOUGH = 100
"""Data sets from which mean squares are compared whatever the tails."""

MARGIN = 0.05
"""Ratios of errors within 1 ± MARGIN are no difference worth the name."""

WELL = 0.5
"""Performing well is an RMSE of at most this share of the yardsticks'."""

MOSTLY = 0.5
"""A method that fails on more than this share of the data sets is listed, not compared."""


NOT_RUN = "not run yet"
"""Figure of a line whose trials `results/remake.py` has still to run; it counts as undecided."""


def better(trials: Trials, one: Method, other: Method, settings: Iterable[Any] = ()) -> list[Line]:
    """Whether ``one`` errs less than ``other``, at each setting, on the data sets both answer.

    The figure is the ratio of RMSEs with the interval of the studentized swap test. With fewer
    than 100 data sets and heavy tails on either side, no test of mean squares holds, and signed
    ranks of absolute errors decide instead. Where one test decides for one method and the other
    test for the other, nothing is said. Settings in which one of them cannot answer have no line.
    """
    lines = []
    for setting in settings or trials.settings:
        if not trials.complete(one, other, setting=setting):
            what = f"{one.name} / {other.name}"
            lines.append(Line(what, axis_of(trials, setting), NOT_RUN))
            continue
        if not (trials.available(one, setting) and trials.available(other, setting)):
            continue
        lines.append(_compared(trials, one, other, setting))
    return lines


def _compared(trials: Trials, one: Method, other: Method, setting: Any) -> Line:
    a, b = trials.errors(one, setting), trials.errors(other, setting)
    what, where = f"{one.name} / {other.name}", axis_of(trials, setting)
    for method, errors in ((one, a), (other, b)):
        share = float(np.isnan(errors).mean())
        if share > MOSTLY:
            return Line(what, where, f"{method.name} fails: {share:.0%}", counted=False)
    both = np.isfinite(a) & np.isfinite(b)
    line = ratio(what, where, a[both], b[both])
    of = "" if both.all() else f" ({both.sum()} data sets)"
    return replace(line, number=line.number + of)


def ratio(what: str, where: str, one: FloatArray, other: FloatArray) -> Line:
    """One comparison in two ways: mean squares and typical errors."""
    squares, ranks = paired(one, other), typical(one, other)
    low, high = _interval(squares)
    value = math.inf if squares.ratio is None else math.sqrt(squares.ratio)
    p_squares = _two_sided(squares.p_greater, squares.p_less)
    p_ranks = _two_sided(ranks.p_greater, ranks.p_less)
    less_squares, less_ranks = squares.p_less < squares.p_greater, ranks.p_less < ranks.p_greater
    by_ranks = len(one) < ENOUGH and squares.heavy_tailed
    contrary = less_squares != less_ranks and max(p_squares, p_ranks) < LEVEL
    number = figure(value, low, high) + (" †" if squares.heavy_tailed else "")
    if (by_ranks or contrary) and ranks.ratio is not None:
        number += f", typical {ranks.ratio:.2g}"
    if by_ranks:
        return Line(what, where, number, p_ranks, less_ranks, typical=True, contrary=contrary)
    small = low is not None and low > 1 - MARGIN
    return Line(what, where, number, p_squares, less_squares, negligible=small, contrary=contrary)


def never_far(
    trials: Trials, one: Method, rivals: Sequence[Method], setting: Any, limit: float
) -> Line:
    """Whether ``one`` errs at most ``limit`` times as much as the best rival, in hindsight."""
    if not trials.complete(one, *rivals, setting=setting):
        what = f"{one.name} / best of the others"
        return Line(what, axis_of(trials, setting), NOT_RUN)
    answered = [
        rival
        for rival in rivals
        if trials.available(rival, setting)
        and np.isnan(trials.errors(rival, setting)).mean() <= MOSTLY
    ]
    best = min(answered, key=lambda rival: _rmse(trials.errors(rival, setting)))
    line = _compared(trials, one, best, setting)
    squares = _both(trials.errors(one, setting), trials.errors(best, setting))
    low, high = _interval(squares)
    decided = None
    if low is not None and high is not None:
        decided = True if high < limit else False if low > limit else None
    return replace(
        line,
        what=f"{one.name} / best of the others",
        number=f"{line.number}, {best.name}",
        p=None,
        decided=decided,
        negligible=False,
        typical=False,
        contrary=False,
    )


def performs_well(trials: Trials, method: Method, logging: Method, setting: Any) -> Line:
    """Whether a method errs at most half as much as answers that know nothing of the target.

    Two yardsticks, and the harder one counts: the best constant answer, known in hindsight, whose
    error is the spread of the truth over data sets; and the logging average. Where all data sets
    of a suite have one value, some constant is right, and nothing can be for the claim; then the
    answer zero takes the constant's part, and an estimator that errs more than half as much is
    against it.
    """
    if not trials.complete(method, logging, setting=setting):
        return Line(f"RMSE of {method.name}", axis_of(trials, setting), NOT_RUN)
    errors, truths = trials.errors(method, setting), trials.truths(setting)
    pool = trials.pooled_truths(setting)
    constant = bool(np.ptp(pool) <= 1e-9 * max(1e-300, np.abs(pool).max()))
    yardsticks = {"the logging average": trials.errors(logging, setting)}
    if constant:
        yardsticks["the answer zero"] = truths
    else:
        yardsticks["the truth's spread"] = _spread(truths, pool)
    found = []
    for name, yardstick in yardsticks.items():
        both = np.isfinite(errors) & np.isfinite(yardstick)
        compared = paired(errors[both], yardstick[both])
        low, high = _interval(compared)
        value = math.inf if compared.ratio is None else math.sqrt(compared.ratio)
        found.append((value, low, high, name))
    value, low, high, name = max(found, key=lambda one: one[0])
    decided = None
    if any(one[1] is not None and one[1] > WELL for one in found):
        decided = False
    elif all(one[2] is not None and one[2] < WELL for one in found) and not constant:
        decided = True
    number = f"{figure(value, low, high)} of {name}"
    return Line(f"RMSE of {method.name}", axis_of(trials, setting), number, decided=decided)


def _spread(truths: FloatArray, pool: FloatArray) -> FloatArray:
    """Errors of the best constant: as many as truths, with the mean square that they have."""
    if np.ptp(truths) > 0:
        return np.asarray(truths - truths.mean())
    return np.full(len(truths), pool.std())


def less_spread(trials: Trials, one: Method, other: Method, setting: Any) -> Line:
    """Whether the errors of ``one`` vary less than those of ``other``: `ratio` less the means."""
    a, b = trials.errors(one, setting), trials.errors(other, setting)
    what = f"sd of {one.name} / sd of {other.name}"
    return ratio(what, axis_of(trials, setting), a - a.mean(), b - b.mean())


def bias(trials: Trials, method: Method, setting: Any) -> Line:
    """Whether a method is right on average.

    Not excluding a bias is no proof of none, so a wide interval cannot speak for the claim: it
    has to lie within a tenth of the root mean square of the truth.
    """
    mean, reach = _mean(trials.errors(method, setting))
    tenth = 0.1 * math.sqrt(float(np.square(trials.truths(setting)).mean()))
    small = abs(mean) + reach < tenth
    decided = False if abs(mean) > reach and not small else True if small else None
    number = figure(mean, mean - reach, mean + reach)
    return Line(f"bias of {method.name}", axis_of(trials, setting), number, decided=decided)


def covers(trials: Trials, method: Method, settings: Iterable[Any] = ()) -> list[Line]:
    """How often estimate ± 1.96 standard errors holds the truth, where a method offers one."""
    lines = []
    for setting in settings or trials.settings:
        errors, reach = (
            trials.errors(method, setting),
            1.96 * trials.standard_errors(method, setting),
        )
        offered = np.isfinite(errors) & np.isfinite(reach)
        where, what = axis_of(trials, setting), f"intervals of {method.name} that hold the truth"
        if not offered.any():
            lines.append(Line(what, where, "none offered"))
            continue
        found = wilson(int((np.abs(errors) <= reach)[offered].sum()), int(offered.sum()))
        of = "" if offered.all() else f", {offered.sum()} of {len(offered)} offered"
        number = f"{found.count / found.total:.0%} [{found.low:.0%}, {found.high:.0%}]{of}"
        lines.append(Line(what, where, number))
    return lines


def axis_of(trials: Trials, setting: Any) -> str:
    """The column of a setting; says where all data sets come from one world."""
    shown = f"{setting:,}" if isinstance(setting, int) else str(setting)
    world = " (one world)" if trials.of_one_world(setting) else ""
    return f"{trials.axis} = {shown.strip()}{world}"


def _mean(errors: FloatArray) -> tuple[float, float]:
    """Mean and half-width of its 95 % t-interval."""
    from scipy.special import stdtrit

    n = len(errors)
    reach = float(stdtrit(n - 1, 1 - LEVEL / 2)) * float(errors.std(ddof=1)) / math.sqrt(n)
    return float(errors.mean()), reach


def _both(one: FloatArray, other: FloatArray) -> Paired:
    both = np.isfinite(one) & np.isfinite(other)
    return paired(one[both], other[both])


def _rmse(errors: FloatArray) -> float:
    return math.sqrt(float(np.nanmean(np.square(errors))))


def _interval(found: Paired) -> tuple[float | None, float | None]:
    """Of the ratio of root mean squares."""
    low, high = found.low, found.high
    return (None if low is None else math.sqrt(low)), (None if high is None else math.sqrt(high))


def _two_sided(greater: float, less: float) -> float:
    return min(1.0, 2 * min(greater, less))


def heavy(errors: FloatArray) -> bool:
    """Whether the errors that exist are marked as heavy-tailed."""
    squared = np.square(errors[np.isfinite(errors)])
    return bool(heavy_tailed(squared[None])[0]) if len(squared) else False
