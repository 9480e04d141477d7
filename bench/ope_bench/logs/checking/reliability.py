"""Reliability of propensities: for each action the mean of 1{a}/p, in expectation one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.logs.problem import unit_of
from ope_bench.logs.reading.log_data import LogData

__all__ = ["LEAST_ROWS", "Reliability", "johnson_z", "reliability_of"]

LEAST_ROWS = 30
"""Rows of an action below which its propensities are not tested."""

ROUNDING = 1e-9
"""Distance of a mean from its expectation that is a matter of rounding."""

LEAST_SPREAD = 1e-6
"""Standard deviation, as a share of the mean, below which terms differ by rounding alone."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """The mean of 1{a}/p over all rows, for actions with at least `LEAST_ROWS` of their own.

    Parameters
    ----------
    action : (k,), codes.
    mean : (k,), in expectation one.
    error : (k,), its standard error, by unit.
    z : (k,), of its distance from one, corrected for skewness; 0 where there is one unit only.
    """

    action: IntArray
    mean: FloatArray
    error: FloatArray
    z: FloatArray


def reliability_of(log: LogData) -> Reliability | None:
    """Compute the reliability of a log's propensities, None where it has none.

    One pass over the rows, however many actions there are: moments of sums by unit are sums over
    the pairs of unit and action that occur.
    """
    if log.propensity is None:
        return None
    unit = np.unique(unit_of(log), return_inverse=True)[1].reshape(-1)
    n_actions, size = len(log.actions), np.bincount(unit).astype(np.float64)
    pairs, place = np.unique(unit * n_actions + log.action, return_inverse=True)
    x = np.bincount(place.reshape(-1), 1.0 / log.propensity).astype(np.float64)
    action, rows = pairs % n_actions, size[pairs // n_actions]

    def over(values: FloatArray) -> FloatArray:
        total: FloatArray = np.bincount(action, values, minlength=n_actions).astype(np.float64)
        return total

    # Raw moments of t = x - rows over units, x being 0 where an action does not occur.
    k = len(size)
    first = (over(x) - size.sum()) / k
    second = (over(x**2 - 2 * x * rows) + (size**2).sum()) / k
    third = (over(x**3 - 3 * x**2 * rows + 3 * x * rows**2) - (size**3).sum()) / k
    tested = np.flatnonzero(np.bincount(log.action, minlength=n_actions) >= LEAST_ROWS)
    first, second, third = first[tested], second[tested], third[tested]
    variance = np.maximum(second - first**2, 0.0) * k / max(k - 1, 1)
    central = third - 3 * first * second + 2 * first**3
    z = johnson_z(first, np.sqrt(variance), central, k) if k > 1 else np.zeros_like(first)
    mean_size = size.sum() / k
    error = np.sqrt(variance / k) / mean_size
    return Reliability(tested, 1 + first / mean_size, error, z)


def johnson_z(mean: FloatArray, deviation: FloatArray, third: FloatArray, k: int) -> FloatArray:
    """Return means over their standard errors, corrected for skewness.

    The mean of 1/p over few rows is mostly below its expectation, and then looks more certain
    than it is; without the correction rare actions would be called wrong. Equal terms have no
    standard error: z is 0 if their mean is 0 up to `ROUNDING`, and infinite otherwise.

    Parameters
    ----------
    mean, deviation, third : of k independent terms: means, standard deviations, third central
        moments.

    References
    ----------
    Modified t tests and confidence intervals for asymmetrical populations (Johnson, 1978).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness, scaled = third / deviation**3, mean / deviation
        z: FloatArray = (scaled + skewness / (6 * k) + skewness / 3 * scaled**2) * k**0.5
    z = np.where(deviation > LEAST_SPREAD * np.abs(mean), z, np.copysign(np.inf, mean))
    return np.where(np.abs(mean) > ROUNDING, z, 0.0)
