"""What errors look like: their centre, their spread, and the distribution of their squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ope_bench.arrays import FloatArray

__all__ = ["Summary", "area_under_cdf", "cvar", "squared_error_cdf", "summarize"]


@dataclass(frozen=True)
class Summary:
    """One row's errors in a few numbers; None where there is no finite error.

    Parameters
    ----------
    n : errors.
    bias : mean error.
    sd : standard deviation of the errors, n - 1 in the denominator; None below two.
    median_absolute_error, rmse : sizes.
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


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def summarize(errors: FloatArray) -> Summary:
    """The summary of finite errors.

    Parameters
    ----------
    errors : (n,), estimate minus truth.

    >>> found = summarize(np.array([1.0, -1.0, 2.0]))
    >>> found.median_absolute_error, found.worst
    (1.0, 2.0)
    """
    n = len(errors)
    if n == 0:
        return Summary(0)
    size = np.abs(errors)
    largest = float(size.max())
    # In units of the largest error, so that squares neither overflow nor vanish.
    unit = largest or 1.0
    worst_tenth = unit * cvar(np.square(size / unit)) * unit
    return Summary(
        n,
        bias=float(errors.mean()),
        sd=unit * float((errors / unit).std(ddof=1)) if n > 1 else None,
        median_absolute_error=float(np.median(size)),
        rmse=unit * float(np.sqrt(np.square(size / unit).mean())),
        quantiles=tuple(map(float, np.quantile(size, LEVELS))),
        worst=largest,
        cvar=worst_tenth if math.isfinite(worst_tenth) else None,
    )


def squared_error_cdf(squared: FloatArray, at: FloatArray) -> FloatArray:
    """Share of squared errors at most each of ``at``.

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
    """Area under the distribution function of squared error on [0, limit], over ``limit``.

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
    """Mean of the worst ``1 - level`` share of the squared errors.

    Formula: the integral of the quantile function over (level, 1), divided by 1 - level; the
    order statistic on the boundary counts by its part.

    References
    ----------
    "Optimization of conditional value-at-risk" (Rockafellar and Uryasev, 2000).

    >>> cvar(np.arange(1.0, 11.0), 0.85)
    9.666666666666666
    """
    ordered = np.sort(squared)[::-1]
    n = len(ordered)
    # The k-th worst fills the quantiles from (k - 1) / n to k / n.
    filled = np.clip((1 - level) * n - np.arange(n), 0.0, 1.0)
    return float((filled * ordered).sum() / filled.sum())
