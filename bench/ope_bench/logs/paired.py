"""Standard errors of means and of paired differences, by unit, and normal intervals."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri, stdtrit

from ope_bench.contracts.arrays import FloatArray, IntArray

__all__ = [
    "baseline_difference",
    "normal_interval",
    "standard_error",
    "two_sided",
    "without_rounding",
]

ROUNDING = 1e-12
"""Share of two values below which their difference is a matter of the order of summation."""


def standard_error(terms: FloatArray, unit: IntArray) -> float | None:
    """Standard error of the mean of terms that are independent from unit to unit.

    Centered terms are summed by unit; k / (k - 1) corrects for k units. None for a single unit.

    Parameters
    ----------
    terms : (n,)
    unit : (n,)

    >>> round(standard_error(np.array([1.0, 4.0, 1.0, 4.0]), np.array([0, 1, 0, 1])), 9)
    1.5
    """
    centered = terms - terms.mean()
    if not (unit[1:] > unit[:-1]).all():
        row = np.unique(unit, return_inverse=True)[1].reshape(-1)
        centered = np.bincount(row, weights=centered)
    k = len(centered)
    if k < 2:
        return None
    return math.sqrt(k / (k - 1) * float(np.square(centered).sum())) / len(terms)


def baseline_difference(
    weight: FloatArray, other: FloatArray, reward: FloatArray, unit: IntArray
) -> tuple[float, float | None]:
    """Difference of two policies' values, weighted around the constant of least variance.

        Δ = (1/n) sum_i (w_i - v_i) (r_i - β),   β = sum_i (w_i - v_i)² r_i / sum_i (w_i - v_i)²

    Returned with its standard error. Any fixed β leaves the difference unbiased.

    Parameters
    ----------
    weight, other : (n,), importance weights w and v of the policies; ones for the logging policy.
    reward : (n,)
    unit : (n,)

    References
    ----------
    Δ-OPE: off-policy estimation with pairs of policies (Jeunen and Ustimenko, 2024), Δβ-IPS.
    """
    apart = weight - other
    squares = float(np.square(apart).sum())
    if squares == 0:
        return 0.0, 0.0
    baseline = float(np.square(apart) @ reward) / squares
    terms = apart * (reward - baseline)
    return float(terms.mean()), standard_error(terms, unit)


def normal_interval(
    value: float | None, error: float | None, level: float, units: int | None = None
) -> tuple[float | None, float | None]:
    """Return the ends of the normal interval, None without a standard error.

    Parameters
    ----------
    value, error : the estimate and its standard error.
    level : of the interval.
    units : number of units whose spread gave the standard error: Student's distribution with one
        degree of freedom less; None for the normal one.

    >>> low, high = normal_interval(1.0, 0.5, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.02, 1.98)
    >>> low, high = normal_interval(1.0, 0.5, 0.95, units=5)
    >>> round(low, 3), round(high, 3)
    (-0.388, 2.388)
    """
    if value is None or error is None or units == 1:
        return None, None
    share = 0.5 + level / 2
    quantile = float(ndtri(share) if units is None else stdtrit(units - 1, share))
    return value - quantile * error, value + quantile * error


def without_rounding(
    difference: float, error: float | None, size: float
) -> tuple[float, float | None]:
    """Return a difference and its standard error, zeros where rounding alone made both.

    Equal policies then differ by 0, and not by 1e-16 with an interval that leaves 0 out.

    Parameters
    ----------
    difference, error : of two values.
    size : of the larger value.

    >>> without_rounding(-1e-16, 2e-17, 0.5), without_rounding(-1e-16, 0.1, 0.5)
    ((0.0, 0.0), (-1e-16, 0.1))
    """
    limit = ROUNDING * abs(size)
    if abs(difference) > limit or (error or 0.0) > limit:
        return difference, error
    return 0.0, None if error is None else 0.0


def two_sided(z: float) -> float:
    """Return the probability of a standard normal at least as far from 0.

    >>> round(two_sided(1.959964), 4)
    0.05
    """
    return math.erfc(abs(z) / math.sqrt(2))
