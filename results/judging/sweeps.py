"""Lines about how errors change along a swept parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from judging.errors import ENOUGH, heavy
from judging.line import LEVEL, Line, figure
from judging.trials import Method, Trials
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.slopes import Slope, rmse_slope, typical_slope

__all__ = ["SLOPE_MARGIN", "falls", "grows", "lead_grows", "stays"]

SLOPE_MARGIN = 0.05
"""Slopes within ± this are no change worth the name."""


def falls(
    trials: Trials, method: Method, settings: Sequence[Any] = (), *, margin: float = SLOPE_MARGIN
) -> Line:
    """Whether the RMSE falls along the axis; a slope shown to be above -margin is against it."""
    return _line(trials, f"slope of {method.name}", [method], settings, True, margin)


def grows(trials: Trials, method: Method) -> Line:
    """Whether the RMSE grows along the axis; a slope shown to be below the margin is against."""
    return _line(trials, f"slope of {method.name}", [method], (), False, SLOPE_MARGIN)


def lead_grows(trials: Trials, one: Method, other: Method) -> Line:
    """Whether the ratio RMSE(one) / RMSE(other) falls along the axis."""
    what = f"slope of {one.name} / {other.name}"
    return _line(trials, what, [one, other], (), True, SLOPE_MARGIN)


def stays(
    trials: Trials, method: Method, settings: Sequence[Any] = (), *, at_least: bool = False
) -> Line:
    """Whether the RMSE stays along the axis: its slope's interval lies within ± the margin.

    Parameters
    ----------
    at_least : also where it lies above: for claims that an error does not go.
    """
    chosen = list(settings) or trials.settings
    found = rmse_slope(_errors(trials, method, chosen), np.array(chosen, dtype=np.float64))
    low, high = (found.low, found.high)
    decided = None
    if low is not None and high is not None:
        if low > -SLOPE_MARGIN and (at_least or high < SLOPE_MARGIN):
            decided = True
        elif high < -SLOPE_MARGIN or (low > SLOPE_MARGIN and not at_least):
            decided = False
    what = f"slope of {method.name}, within ±{SLOPE_MARGIN:g}"
    if at_least:
        what = f"slope of {method.name}, above −{SLOPE_MARGIN:g}"
    number = figure(found.value, low, high)
    return Line(what, _along(trials, chosen), number, decided=decided)


def _line(
    trials: Trials,
    what: str,
    methods: Sequence[Method],
    settings: Sequence[Any],
    downwards: bool,
    margin: float,
) -> Line:
    chosen = list(settings) or trials.settings
    axis = np.array(chosen, dtype=np.float64)
    errors = [_errors(trials, method, chosen) for method in methods]
    squares, ranks = (
        rmse_slope(errors[0], axis, *errors[1:]),
        typical_slope(errors[0], axis, *errors[1:]),
    )
    tails = any(heavy(row) for table in errors for row in table)
    by_ranks = tails and errors[0].shape[1] < ENOUGH
    contrary = (squares.value < 0) != (ranks.value < 0) and max(squares.p, ranks.p) < LEVEL
    number = figure(squares.value, squares.low, squares.high) + (" †" if tails else "")
    if by_ranks or contrary:
        number += f", typical {ranks.value:.2g}"
    where = _along(trials, chosen)
    if by_ranks:
        sign = (ranks.value < 0) == downwards
        return Line(what, where, number, ranks.p, sign, typical=True, contrary=contrary)
    sign = (squares.value < 0) == downwards
    small = _small(squares, downwards, margin)
    return Line(what, where, number, squares.p, sign, negligible=small, contrary=contrary)


def _small(slope: Slope, downwards: bool, margin: float) -> bool:
    """Whether every change in the claimed direction beyond the margin is excluded."""
    if slope.low is None or slope.high is None:
        return False
    return slope.low > -margin if downwards else slope.high < margin


def _errors(trials: Trials, method: Method, settings: Sequence[Any]) -> FloatArray:
    """(settings, replicates)."""
    return np.array([trials.errors(method, setting) for setting in settings])


def _along(trials: Trials, chosen: Sequence[Any]) -> str:
    if list(chosen) == trials.settings:
        return f"along {trials.axis}"
    return f"{trials.axis} from {chosen[0]:,} to {chosen[-1]:,}"
