"""Lines of evidence by the errors of estimators: against others', bounds, bare answers; slopes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from judging.claims.comparisons import Paired, paired, rmse_slope, typical, typical_slope
from judging.claims.line import LEVEL, Line, figure
from judging.trials.rows import Estimator, Trials
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.error_distribution import heavy_tailed
from ope_bench.statistics.ranks import mean_interval

ENOUGH = 100
"""Data sets from which mean squares are compared whatever the tails."""

MARGIN = 0.05
"""Ratios of errors within 1 ± MARGIN are no difference worth the name."""

SLOPE_MARGIN = 0.05
"""Slopes within ± this are no change worth the name."""

WELL = 0.5
"""Performing well is an RMSE of at most this share of the yardsticks'."""

MOSTLY = 0.5
"""An estimator that fails on more than this share of the data sets is listed, not compared."""


FAILS = 0.05
"""An estimator that fails on less than this share of the data sets is said to answer."""

NOT_RUN = "not run yet"
"""Figure of a line whose trials `run --keep` has still to run; it counts as undecided."""


def better(
    trials: Trials, one: Estimator, other: Estimator, settings: Iterable[Any] = ()
) -> list[Line]:
    """Whether ``one`` errs less than ``other``, at each setting, on the data sets both answer.

    The figure is the ratio of RMSEs with the interval of the studentized swap test. With fewer
    than 100 data sets and heavy tails on either side, no test of mean squares holds, and signed
    ranks of absolute errors decide instead. Where one test decides for one estimator and the other
    test for the other, nothing is said. Settings in which one of them cannot answer have no line.
    """
    lines, what = [], f"{one.name} / {other.name}"
    for setting in settings or trials.settings:
        if not trials.complete(one, other, setting=setting):
            lines.append(Line(what, axis_of(trials, setting), NOT_RUN))
        elif trials.available(one, setting) and trials.available(other, setting):
            lines.append(_compared(trials, one, other, setting))
    return lines


def _compared(trials: Trials, one: Estimator, other: Estimator, setting: Any) -> Line:
    a, b = trials.errors(one, setting), trials.errors(other, setting)
    what, where = f"{one.name} / {other.name}", axis_of(trials, setting)
    for estimator, errors in ((one, a), (other, b)):
        share = float(np.isnan(errors).mean())
        if share > MOSTLY:
            return Line(what, where, f"{estimator.name} fails: {share:.0%}", counted=False)
    both = np.isfinite(a) & np.isfinite(b)
    line = ratio(what, where, a[both], b[both])
    of = "" if both.all() else f" ({both.sum()} data sets)"
    return replace(line, number=line.number + of)


def ratio(what: str, where: str, one: FloatArray, other: FloatArray) -> Line:
    """One comparison in two ways: mean squares and typical errors."""
    squares = _paired(one, other)
    ranks = _tested(typical, one.tobytes(), other.tobytes())
    value, low, high = _roots(squares)
    p_squares, p_ranks = (
        min(1.0, 2 * min(found.p_greater, found.p_less)) for found in (squares, ranks)
    )
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
    trials: Trials, one: Estimator, rivals: Sequence[Estimator], setting: Any, limit: float
) -> Line:
    """Whether ``one`` errs at most ``limit`` times as much as the best rival, in hindsight."""
    what, where = f"{one.name} / best of the others", axis_of(trials, setting)
    if not trials.complete(one, *rivals, setting=setting):
        return Line(what, where, NOT_RUN)
    errors = {rival: trials.errors(rival, setting) for rival in rivals}
    answered = [
        rival
        for rival in rivals
        if trials.available(rival, setting) and np.isnan(errors[rival]).mean() <= MOSTLY
    ]
    best = min(answered, key=lambda rival: float(np.nanmean(np.square(errors[rival]))))
    number = f"{_compared(trials, one, best, setting).number}, {best.name}"
    mine = trials.errors(one, setting)
    both = np.isfinite(mine) & np.isfinite(errors[best])
    _, low, high = _roots(_paired(mine[both], errors[best][both]))
    return Line(what, where, number, decided=_beyond(low, high, limit, above=False))


def performs_well(trials: Trials, estimator: Estimator, logging: Estimator, setting: Any) -> Line:
    """Whether an estimator errs at most half as much as answers that know nothing of the target.

    Two yardsticks, and the harder one counts: the best constant answer, known in hindsight, whose
    error is the spread of the truth over data sets; and the logging average. Where all data sets
    of a suite have one value, some constant is right, and nothing can be for the claim; then the
    answer zero takes the constant's part, and an estimator that errs more than half as much is
    against it.
    """
    if not trials.complete(estimator, logging, setting=setting):
        return Line(f"RMSE of {estimator.name}", axis_of(trials, setting), NOT_RUN)
    errors, truths = trials.errors(estimator, setting), trials.truths(setting)
    pool = trials.pooled_truths(setting)
    constant = bool(np.ptp(pool) <= 1e-9 * max(1e-300, np.abs(pool).max()))
    yardsticks = {"the logging average": trials.errors(logging, setting)}
    if constant:
        yardsticks["the answer zero"] = truths
    elif np.ptp(truths) > 1e-9 * np.abs(truths).max():
        yardsticks["the truth's spread"] = np.asarray(truths - truths.mean())
    else:
        # As many errors as truths, with the mean square of the best constant for all of them.
        yardsticks["the truth's spread"] = np.full(len(truths), pool.std())
    found = []
    for name, yardstick in yardsticks.items():
        both = np.isfinite(errors) & np.isfinite(yardstick)
        found.append((*_roots(_paired(errors[both], yardstick[both])), name))
    value, low, high, name = max(found, key=lambda one: one[0])
    judged = [_beyond(low, high, WELL, above=False) for _, low, high, _ in found]
    decided = None
    if False in judged:
        decided = False
    elif all(judged) and not constant:
        decided = True
    number = f"{figure(value, low, high)} of {name}"
    return Line(f"RMSE of {estimator.name}", axis_of(trials, setting), number, decided=decided)


def less_spread(trials: Trials, one: Estimator, other: Estimator, setting: Any) -> Line:
    """Whether the errors of ``one`` vary less than those of ``other``: `ratio` less the means."""
    a, b = trials.errors(one, setting), trials.errors(other, setting)
    what = f"sd of {one.name} / sd of {other.name}"
    return ratio(what, axis_of(trials, setting), a - a.mean(), b - b.mean())


def bias(trials: Trials, estimator: Estimator, setting: Any) -> Line:
    """Whether an estimator is right on average.

    Not excluding a bias is no proof of none, so a wide interval cannot speak for the claim: it
    has to lie within a tenth of the root mean square of the truth.
    """
    mean, low, high = mean_interval(trials.errors(estimator, setting))
    tenth = 0.1 * math.sqrt(float(np.square(trials.truths(setting)).mean()))
    small = -tenth < low <= high < tenth
    decided = True if small else False if low > 0 or high < 0 else None
    number = figure(mean, low, high)
    return Line(f"bias of {estimator.name}", axis_of(trials, setting), number, decided=decided)


def covers(trials: Trials, estimator: Estimator, setting: Any) -> Line:
    """Whether an estimator's 95 % intervals hold the truth as often as they say, where offered."""
    ends = trials.ends(estimator, setting)
    offered = ends[np.isfinite(ends).all(axis=1)]
    where, what = axis_of(trials, setting), f"intervals of {estimator.name} that hold the truth"
    if not len(offered):
        return Line(what, where, "none offered", counted=False)
    count = int(((offered[:, 0] <= 0) & (offered[:, 1] >= 0)).sum())
    of = "" if len(offered) == len(ends) else f", {len(offered)} of {len(ends)} offered"
    return _share(what, where, count, len(offered), 1 - LEVEL, above=True, remark=of)


def fails(
    trials: Trials,
    estimator: Estimator,
    setting: Any,
    *,
    limit: float = FAILS,
    above: bool = False,
) -> Line:
    """Whether an estimator fails on less than a share of the data sets or, ``above``, on more."""
    missing = np.isnan(trials.errors(estimator, setting))
    what, where = f"{estimator.name} fails", axis_of(trials, setting)
    return _share(what, where, int(missing.sum()), len(missing), limit, above=above)


def _share(
    what: str, where: str, count: int, total: int, limit: float, *, above: bool, remark: str = ""
) -> Line:
    """A share with Wilson's interval, which lies below a limit or, ``above``, above it."""
    found = wilson(count, total)
    low, high = found.low or 0.0, found.high or 0.0
    number = f"{count / total:.0%} [{low:.1%}, {high:.1%}]{remark}"
    return Line(what, where, number, decided=_beyond(low, high, limit, above=above))


def _beyond(low: float | None, high: float | None, limit: float, *, above: bool) -> bool | None:
    """Whether an interval lies on the claim's side of a limit, on the other, or across."""
    if high is not None and high < limit:
        return not above
    return above if low is not None and low > limit else None


def falls(
    trials: Trials, *estimators: Estimator, settings: Sequence[Any] = (), upwards: bool = False
) -> Line:
    """Whether an RMSE falls along the axis or, ``upwards``, grows; of two estimators, their ratio.

    A slope that is shown to lie within the margin, or on the other side, is against it.
    """
    chosen = list(settings) or trials.settings
    axis = np.array(chosen, dtype=np.float64)
    errors = [_errors(trials, estimator, chosen) for estimator in estimators]
    squares, ranks = (slope(errors[0], axis, *errors[1:]) for slope in (rmse_slope, typical_slope))
    tails = any(heavy(row) for table in errors for row in table)
    by_ranks = tails and errors[0].shape[1] < ENOUGH
    contrary = (squares.value < 0) != (ranks.value < 0) and max(squares.p, ranks.p) < LEVEL
    number = figure(squares.value, squares.low, squares.high) + (" †" if tails else "")
    if by_ranks or contrary:
        number += f", typical {ranks.value:.2g}"
    what, where = f"slope of {' / '.join(one.name for one in estimators)}", _along(trials, chosen)
    judged = ranks if by_ranks else squares
    line = Line(what, where, number, judged.p, (judged.value < 0) != upwards, contrary=contrary)
    if by_ranks or squares.low is None or squares.high is None:
        return replace(line, typical=by_ranks)
    small = squares.high < SLOPE_MARGIN if upwards else squares.low > -SLOPE_MARGIN
    return replace(line, negligible=small)


def stays(
    trials: Trials, estimator: Estimator, *, settings: Sequence[Any] = (), at_least: bool = False
) -> Line:
    """Whether the RMSE stays along the axis: its slope's interval lies within ± the margin.

    Parameters
    ----------
    at_least : also where it lies above: for claims that an error does not go.
    """
    chosen = list(settings) or trials.settings
    found = rmse_slope(_errors(trials, estimator, chosen), np.array(chosen, dtype=np.float64))
    low, high = found.low, found.high
    decided = None
    if low is not None and high is not None:
        if low > -SLOPE_MARGIN and (at_least or high < SLOPE_MARGIN):
            decided = True
        elif high < -SLOPE_MARGIN or (low > SLOPE_MARGIN and not at_least):
            decided = False
    what = f"slope of {estimator.name}, within ±{SLOPE_MARGIN:g}"
    if at_least:
        what = f"slope of {estimator.name}, above −{SLOPE_MARGIN:g}"
    number = figure(found.value, low, high)
    return Line(what, _along(trials, chosen), number, decided=decided)


def _errors(trials: Trials, estimator: Estimator, settings: Sequence[Any]) -> FloatArray:
    """(settings, replicates)."""
    return np.array([trials.errors(estimator, setting) for setting in settings])


def _along(trials: Trials, chosen: Sequence[Any]) -> str:
    if list(chosen) == trials.settings:
        return f"along {trials.axis}"
    return f"{trials.axis} from {chosen[0]:,} to {chosen[-1]:,}"


def within_bound(
    trials: Trials, estimator: Estimator, fact: str, bound: str, what: str
) -> list[Line]:
    """Whether a diagnostic of the weights is below its bound, at each setting that has both.

    Variances are compared by their roots.
    """
    lines = []
    for setting in trials.settings:
        facts, bounds = (trials.diagnostic(estimator, setting, one) for one in (fact, bound))
        both = np.isfinite(facts) & np.isfinite(bounds)
        if not both.any():
            continue
        facts, bounds = np.abs(facts[both]), bounds[both]
        beyond = int((facts > bounds).sum())
        if fact.endswith("variance"):
            facts, bounds = np.sqrt(facts), np.sqrt(bounds)
        line = ratio(
            f"{what} of {estimator.name} / bound", axis_of(trials, setting), facts, bounds
        )
        count = f"; {beyond} of {both.sum()} beyond" if beyond else ""
        lines.append(replace(line, number=line.number + count, negligible=False))
    return lines


def within_both_bounds(trials: Trials, estimator: Estimator) -> list[Line]:
    """Whether errors are below sqrt(bias bound² + variance bound), at each setting with both."""
    lines = []
    for setting in trials.settings:
        bias_bound, variance = (
            trials.diagnostic(estimator, setting, name)
            for name in ("bias_bound", "variance_bound")
        )
        errors, bounds = trials.errors(estimator, setting), np.sqrt(bias_bound**2 + variance)
        both = np.isfinite(errors) & np.isfinite(bounds)
        if both.any():
            where, what = axis_of(trials, setting), f"error of {estimator.name} / bounds"
            lines.append(ratio(what, where, errors[both], bounds[both]))
    return lines


def axis_of(trials: Trials, setting: Any) -> str:
    """The column of a setting; says where all data sets come from one world."""
    shown = f"{setting:,}" if isinstance(setting, int) else str(setting)
    world = " (one world)" if trials.of_one_world(setting) else ""
    return f"{trials.axis} = {shown.strip()}{world}"


def _paired(one: FloatArray, other: FloatArray) -> Paired:
    found: Paired = _tested(paired, one.tobytes(), other.tobytes())
    return found


@cache
def _tested(test: Callable[..., Any], one: bytes, other: bytes) -> Any:
    """The same comparison bears on several claims, and its swaps take most of the time."""
    return test(np.frombuffer(one), np.frombuffer(other))


def _roots(found: Paired) -> tuple[float, float | None, float | None]:
    """The ratio of root mean squares and the ends of its interval."""
    low, high = (None if end is None else math.sqrt(end) for end in (found.low, found.high))
    return math.inf if found.ratio is None else math.sqrt(found.ratio), low, high


def heavy(errors: FloatArray) -> bool:
    """Whether the errors that exist are marked as heavy-tailed."""
    squared = np.square(errors[np.isfinite(errors)])
    return bool(heavy_tailed(squared[None])[0]) if len(squared) else False
