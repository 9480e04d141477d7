"""Bootstrap intervals of any estimator, over units and with all its fits made anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.interval import Interval
from ope_bench.contracts.resampling import DrawnRows, UnitSampler
from ope_bench.contracts.view import View
from ope_bench.errors import PositivityViolation

__all__ = [
    "UNIT_RESAMPLES",
    "bootstrap_interval",
    "percentile_interval",
    "resampled_rows",
    "unit_resamples",
]

UNIT_RESAMPLES = 200
"""Resamples of a bootstrap interval."""

LEAST_SHARE = 0.9
"""Share of resamples with an estimate below which there is no interval."""


def bootstrap_interval(
    estimator: Estimator, view: View, *, level: float = 0.95, resamples: int = UNIT_RESAMPLES
) -> Interval | None:
    """Return the quantiles of the estimates on units drawn with replacement.

    The estimator is fitted to each resample, shared fits included, so that it takes as long as
    ``resamples`` trials. All estimators get the same resamples of the same data. None where there
    are fewer than two units, and where more than a tenth of the resamples give no finite estimate.

    Parameters
    ----------
    estimator : not fitted; each call of ``fit`` replaces what the one before has set.
    view : of the logs.
    level : nominal level, reached as the number of units grows.
    resamples : number of resamples.

    References
    ----------
    An introduction to the bootstrap (Efron and Tibshirani, 1993), the percentile interval.
    """
    if len(np.unique(view.unit)) < 2:
        return None
    return percentile_interval(
        (_value(estimator, *resample) for resample in unit_resamples(view, resamples)),
        level=level,
    )


def unit_resamples(view: View, count: int) -> Iterator[tuple[View, np.random.Generator]]:
    """Yield views of units drawn with replacement, and a generator for the fits on each.

    On the same data all estimators get the same resamples.
    """
    for drawn, rng in resampled_rows(view, count):
        part = view.rows(*drawn)
        # What an estimator must not read it must not read here either.
        part.violations = view.violations
        yield part, rng


def resampled_rows(view: View, count: int) -> Iterator[tuple[DrawnRows, np.random.Generator]]:
    """Yield rows of units drawn with replacement, and a generator for the fits on each."""
    no_rows = np.empty(0, dtype=np.int64)
    sampler = UnitSampler(view.unit, view.target_unit if view.has_target_sample else no_rows)
    for number in range(count):
        rng = view.estimator_rng(f"resample {number}")
        yield sampler.draw(rng), rng


def _value(estimator: Estimator, view: View, rng: np.random.Generator) -> float:
    try:
        return estimator.fit(view, rng=rng, device=view.device).estimate(view).value
    except PositivityViolation:
        return math.nan


def percentile_interval(estimates: Iterable[float], *, level: float = 0.95) -> Interval | None:
    """Return the quantiles of estimates on resamples.

    None where more than a tenth of them are not finite.

    >>> percentile_interval(range(101), level=0.5)
    Interval(low=25.0, high=75.0, level=0.5, kind='bootstrap')
    """
    values = np.fromiter(estimates, np.float64)
    finite = values[np.isfinite(values)]
    if len(finite) < LEAST_SHARE * len(values):
        return None
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, "bootstrap")
