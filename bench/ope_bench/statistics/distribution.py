"""Distribution of errors: center, spread, and the distribution of their squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray

__all__ = [
    "Summary",
    "area_under_cdf",
    "cvar",
    "mean",
    "median",
    "root_mean_square",
    "scaled_rms",
    "squares",
    "squared_error_cdf",
    "summarize",
]


@dataclass(frozen=True)
class Summary:
    """Summary statistics of one row's errors; None without finite errors.

    Parameters
    ----------
    n : number of errors.
    bias : mean error.
    sd : standard deviation of the errors, with n - 1 in the denominator; None for n < 2.
    median_absolute_error, rmse : typical and root mean square size.
    quantiles : of the absolute error, at .05, .25, .5, .75, .95.
    worst : largest absolute error.
    cvar : mean of the worst tenth of the squared errors.
    """

    n: int
    bias: float | None = None
    sd: float | None = None
    median_absolute_error: float | None = None
    rmse: float | None = None
    quantiles: tuple[float, ...] = ()
    worst: float | None = None
    cvar: float | None = None


def mean(values: FloatArray) -> float:
    """Return the mean of at least one finite number, also where their sum overflows.

    >>> mean(np.array([1.5e308, 1.5e308]))
    1.5e+308
    """
    with np.errstate(over="ignore"):
        direct = float(values.mean())
    return direct if math.isfinite(direct) else float((values / len(values)).sum())


def median(values: Sequence[float]) -> float:
    """Return the median of at least one finite number.

    NumPy's is the same, and takes ten times as long on a few dozen numbers.

    >>> median([3.0, 1.0]), median([3.0, 1.0, 2.0])
    (2.0, 2.0)
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def root_mean_square(values: FloatArray) -> float:
    """Return the root mean square of at least one finite number, also where squares overflow.

    >>> root_mean_square(np.array([1e200, -1e200]))
    1e+200
    """
    with np.errstate(over="ignore"):
        direct = float(np.sqrt(np.square(values).mean()))
    if math.isfinite(direct):
        return direct
    unit = float(np.abs(values).max())
    return unit * float(np.sqrt(np.square(values / unit).mean()))


def scaled_rms(values: FloatArray) -> float:
    """Return the root mean square of at least one finite number, in units of the largest.

    Squares then neither overflow nor underflow; `root_mean_square` differs in the last bit.

    >>> scaled_rms(np.array([3e-200, -3e-200]))
    3e-200
    """
    size = np.abs(values)
    unit = float(size.max()) or 1.0
    return unit * float(np.sqrt(np.square(size / unit).mean()))


LARGEST_ROOT = 1e150
"""Errors up to this size have squares that can be summed."""


def squares(*errors: FloatArray) -> tuple[FloatArray, ...]:
    """Return squares of several estimators' errors in a common unit, for comparisons by ratios.

    The unit is 1 unless a square would overflow.

    >>> [a.tolist() for a in squares(np.array([2.0]), np.array([-3.0]))]
    [[4.0], [9.0]]
    """
    largest = max(float(np.abs(one).max(initial=0.0)) for one in errors)
    unit = largest if largest > LARGEST_ROOT else 1.0
    return tuple(np.square(one / unit) for one in errors)


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def summarize(errors: FloatArray) -> Summary:
    """Summarize finite errors.

    Parameters
    ----------
    errors : (n,), estimate minus truth.

    >>> summary = summarize(np.array([1.0, -1.0, 2.0]))
    >>> summary.median_absolute_error, summary.worst
    (1.0, 2.0)
    """
    n = len(errors)
    if n == 0:
        return Summary(0)
    size = np.abs(errors)
    largest = float(size.max())
    # In units of the largest error, so that squares neither overflow nor underflow.
    unit = largest or 1.0
    worst_tenth = unit * cvar(np.square(size / unit)) * unit
    return Summary(
        n,
        bias=mean(errors),
        sd=unit * float((errors / unit).std(ddof=1)) if n > 1 else None,
        median_absolute_error=median(size.tolist()),
        rmse=scaled_rms(errors),
        quantiles=tuple(map(float, np.quantile(size, LEVELS))),
        worst=largest,
        cvar=worst_tenth if math.isfinite(worst_tenth) else None,
    )


def squared_error_cdf(squared: FloatArray, at: FloatArray) -> FloatArray:
    """Return the empirical distribution function of squared errors at ``at``.

    Parameters
    ----------
    squared : (n,)
    at : (k,)

    >>> squared_error_cdf(np.array([1.0, 4.0]), np.array([0.5, 1.0, 9.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(
        np.searchsorted(np.sort(squared), at, side="right") / len(squared), dtype=np.float64
    )


def area_under_cdf(squared: FloatArray, limit: float) -> float:
    """Return the area under the distribution function of squared error on [0, limit], over limit.

    Formula: the integral of F is the mean of (limit - e^2)_+; 1 is perfect.

    References
    ----------
    "Evaluating the robustness of off-policy evaluation" (Saito, Udagawa, Kiyohara, Mogi, Narita
    and Tateno, 2021), section 4.

    >>> area_under_cdf(np.array([0.0, 0.5, 3.0]), 1.0)
    0.5
    """
    return float(np.maximum(limit - squared, 0.0).mean()) / limit


def cvar(squared: FloatArray, level: float = 0.9) -> float:
    """Return the mean of the largest ``1 - level`` share of the squared errors.

    Formula: the integral of the quantile function over (level, 1), divided by 1 - level; the
    order statistic on the boundary has fractional weight.

    References
    ----------
    "Optimization of conditional value-at-risk" (Rockafellar and Uryasev, 2000).

    >>> cvar(np.arange(1.0, 11.0), 0.85)
    9.666666666666666
    """
    ordered = np.sort(squared)[::-1]
    n = len(ordered)
    # The k-th largest covers the quantiles from (k - 1) / n to k / n.
    filled = np.clip((1 - level) * n - np.arange(n), 0.0, 1.0)
    return float((filled * ordered).sum() / filled.sum())
