"""Standard errors of means of rows that depend on each other within a unit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ope_bench.base.errors import PositivityViolation
from ope_bench.contracts.arrays import FloatArray, IntArray

Mass = Callable[[], float | None]
"""The target policy's mass without support, or None, for messages: computed when asked for."""


def unknown_mass() -> float | None:
    """Return no mass: nothing is known of it."""
    return None


def mean(values: FloatArray) -> float:
    """Mean with the bits of `numpy.mean`, whose checks cost more than a sum of a thousand numbers.

    >>> mean(np.array([1.0, 2.0]))
    1.5
    """
    return float(np.add.reduce(values)) / len(values)


def standard_error(terms: FloatArray, unit: IntArray) -> float | None:
    """Standard error of the mean of terms that are independent from unit to unit.

    With scores s_i = (t_i - mean) / n, summed to S_u over the rows of a unit, it is
    sqrt(k / (k - 1) sum_u S_u²) for k units; the usual one where every row is a unit. None for
    a single unit.

    Parameters
    ----------
    terms : (n,)
    unit : (n,), as `View.unit`.

    References
    ----------
    Longitudinal data analysis using generalized linear models (Liang and Zeger, 1986), for the
    variance by sums over clusters.

    >>> round(standard_error(np.array([1.0, 4.0]), np.array([0, 1])), 9)
    1.5
    >>> round(standard_error(np.array([1.0, 4.0, 1.0, 4.0]), np.array([0, 1, 0, 1])), 9)
    1.5
    """
    n = len(terms)
    sums = sum_by_unit(terms - mean(terms), unit)
    with np.errstate(over="ignore"):
        if len(sums) < n:
            return spread(sums) / n if len(sums) > 1 else None
        squares = float(np.square(sums).sum())
    return math.sqrt(squares / (n - 1)) / math.sqrt(n) if n > 1 else None


def sum_by_unit(values: FloatArray, unit: IntArray) -> FloatArray:
    """Return the sum of the values of each unit: (n_units,); rows that are units keep their order.

    Parameters
    ----------
    values : (n,)
    unit : (n,), as `View.unit`.
    """
    if (unit[1:] > unit[:-1]).all():
        return values
    if unit.min() < 0 or unit.max() > 4 * len(unit):
        unit = np.unique(unit, return_inverse=True)[1].reshape(-1)
    count = np.bincount(unit)
    if count.max() == 1:
        return values
    return np.bincount(unit, values)[count > 0].astype(np.float64)


def spread(sums: FloatArray) -> float:
    """Return the standard error of the sum of all units' sums, which are about 0 on average."""
    k = len(sums)
    return float(np.sqrt(k / (k - 1) * np.square(sums).sum()))


def weight_shares(weights: FloatArray, unsupported_mass: Mass = unknown_mass) -> FloatArray:
    """Return weights over their sum: (n,).

    Raises
    ------
    PositivityViolation : all weights are zero.
    """
    total = float(weights.sum())
    if total == 0:
        msg = f"all {len(weights)} weights are 0: nothing that the target policy does was logged"
        raise PositivityViolation(msg, unsupported_mass=unsupported_mass())
    # Shares first: the products then stay finite where the weights are very large.
    return weights / total
