"""Sums and resamples by unit, and when weights make intervals unreliable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from ope_bench.base.errors import PositivityViolation
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.plugins import Estimator, Interval
from ope_bench.contracts.resampling import DrawnRows, UnitSampler
from ope_bench.contracts.view import View

# Bootstrap intervals of any estimator, over units and with all its fits made anew.

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


# Means over the rows of each unit, for intervals that count units.


def unit_means(
    first: FloatArray, second: FloatArray, unit: IntArray | None
) -> tuple[FloatArray, FloatArray]:
    """Sum the rows of each unit, scaled so that means over units are means over rows: (k,), (k,).

    Parameters
    ----------
    first, second : (n,)
    unit : (n,), integers; None or all different: the rows themselves.

    >>> unit_means(np.array([1.0, 2.0, 6.0]), np.ones(3), np.array([0, 0, 1]))
    (array([2., 4.]), array([1.33333333, 0.66666667]))
    """
    if unit is None or _ascend(unit):
        return first, second
    row = np.unique(unit, return_inverse=True)[1].reshape(-1)
    count = int(row.max()) + 1
    if count == len(first):
        return first, second
    scale = count / len(first)
    sums = (np.bincount(row, weights=part, minlength=count) for part in (first, second))
    of_first, of_second = ((scale * part).astype(np.float64) for part in sums)
    return of_first, of_second


def relative_sizes(unit: IntArray | None) -> tuple[float, float]:
    """Return the rows of the smallest and of the largest unit, over their mean number.

    Parameters
    ----------
    unit : (n,), integers; None: each row is its own unit.

    >>> relative_sizes(np.array([0, 0, 0, 1]))
    (0.5, 1.5)
    """
    if unit is None or _ascend(unit):
        return 1.0, 1.0
    size = np.unique(unit, return_counts=True)[1]
    # In integers first: the quotient of equal sizes is exactly 1.
    return len(size) * int(size.min()) / len(unit), len(size) * int(size.max()) / len(unit)


def _ascend(unit: IntArray) -> bool:
    """Return whether units ascend, so that each row is one."""
    return bool((unit[1:] > unit[:-1]).all())


# When importance weights are such that intervals built on them hold the value too rarely.

EFFECTIVE_SAMPLE_SIZE = "effective_sample_size"
"""Name of the diagnostic with the number of equal rows that the weights are worth."""

LEAST_EFFECTIVE = "least_effective_sample_size"
"""Name of the diagnostic with n / max weight, over the weights that the policies allow."""

SMALLEST_EFFECTIVE = 5
"""Value of that diagnostic below which intervals that rest on the logged weights are doubtful.

Logs mostly lack the rows of the largest weights, and then look better than others: no limit of the
effective sample size of the logged weights does as well. ``results/intervals`` has both.
"""

HOLDING = ("empirical-likelihood", "guaranteed", "anytime")
"""Kinds of intervals that count on rows which are not in the logs."""

RARE_WEIGHTS = (
    f"the policies allow weights of over 1/{SMALLEST_EFFECTIVE} of the number of rows: normal and "
    "bootstrap intervals hold the value too rarely, empirical-likelihood and guaranteed ones do "
    "not"
)
"""Note where that diagnostic is below its limit, on boards as on single records."""

LARGEST_SHARE = 0.1
"""Share of the weight in one logged row above which weights are doubtful."""

SMALLEST_MEAN = 0.8
"""Mean weight, one in expectation, below which weights are doubtful."""

DOUBTFUL_WEIGHTS = (
    f"one logged row carries over {LARGEST_SHARE:.0%} of the weight, or the weights average "
    f"under {SMALLEST_MEAN}: a standard error is too small"
)
"""Note on doubtful weights, on boards as on single records."""


def doubtful_weights(largest_share: float | None, mean: float | None) -> bool:
    """Return whether few logged rows decide the estimate, as far as the weights tell.

    Either one row carries much of the weight, or the weights average far below one: the logs then
    lack the rows that would have carried it. The limits are those of
    ``results/performance/standard-errors.md``.

    Parameters
    ----------
    largest_share : largest weight over the sum of weights.
    mean : of the weights before they are changed, the diagnostic ``mean_weight``; None where an
        estimator does not report it.

    >>> doubtful_weights(0.02, 0.97), doubtful_weights(0.3, 1.1), doubtful_weights(0.02, 0.2)
    (False, True, True)
    """
    return (largest_share is not None and largest_share > LARGEST_SHARE) or (
        mean is not None and mean < SMALLEST_MEAN
    )


def weight_warnings(
    largest_share: float | None,
    mean: float | None,
    least: float | None,
    kinds: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return what a reader of an interval must know of the weights that it rests on.

    Parameters
    ----------
    largest_share, mean : as for `doubtful_weights`.
    least : the diagnostic `LEAST_EFFECTIVE`, None where it is unknown.
    kinds : of the intervals; none: that of the standard error.

    >>> weight_warnings(0.3, 1.1, 40.0) == (DOUBTFUL_WEIGHTS,)
    True
    >>> weight_warnings(0.02, 0.97, 0.3) == (RARE_WEIGHTS,)
    True
    >>> weight_warnings(0.3, 0.2, 0.3, ["guaranteed"])
    ()
    """
    kinds = tuple(kinds)
    if kinds and all(kind in HOLDING for kind in kinds):
        return ()
    found = (
        (DOUBTFUL_WEIGHTS, doubtful_weights(largest_share, mean)),
        (RARE_WEIGHTS, least is not None and least < SMALLEST_EFFECTIVE),
    )
    return tuple(text for text, applies in found if applies)
