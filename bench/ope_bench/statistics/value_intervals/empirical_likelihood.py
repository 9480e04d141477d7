"""Intervals of a policy's value by empirical likelihood, from importance weights and rewards."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.interval import Interval
from ope_bench.statistics.value_intervals.unit_sums import relative_sizes, unit_means

__all__ = ["empirical_likelihood_interval"]


@dataclass(frozen=True)
class _Means:
    """Means over n units and one more: of the weights, and of w (r - r_0) for a reward r_0.

    The unit more has reward r_0, so that only its weight counts.
    """

    weight: float
    weight_square: float
    gain: float
    gain_square: float
    product: float

    @classmethod
    def of(cls, weight: FloatArray, gain: FloatArray, added: float) -> _Means:
        n = len(weight) + 1
        return cls(
            (float(weight.sum()) + added) / n,
            (float(weight @ weight) + added * added) / n,
            float(gain.sum()) / n,
            float(gain @ gain) / n,
            float(weight @ gain) / n,
        )

    @property
    def variance(self) -> float:
        """Variance of the weights; 0 where it is rounding."""
        variance = self.weight_square - self.weight**2
        return variance if variance > 1e-12 * self.weight_square else 0.0


def empirical_likelihood_interval(
    weight: FloatArray,
    reward: FloatArray,
    *,
    reward_range: tuple[float, float],
    weight_range: tuple[float, float] = (0.0, math.inf),
    unit: IntArray | None = None,
    level: float = 0.95,
) -> Interval:
    """Return the interval of E[w r] by the Cressie-Read divergence of power -2.

    Probabilities p of the n rows and of one row more satisfy sum p = 1 and sum p w = 1. The
    interval holds every sum p w r for which

        sum ((n + 1) p - 1)² <= its least value + F(1, n)

    for a row more of any weight and reward at the ends of their ranges, the quantile F being that
    of an F distribution. It holds the weighted average whose probabilities are nearest to equal
    ones. With all weights 1 it is an interval of a mean. Ends are inside the reward range.

    Parameters
    ----------
    weight, reward : (n,)
    reward_range : smallest and largest possible reward.
    weight_range : smallest and largest ratio of the policies at one row; infinite where it is
        unknown, which makes wider intervals. The range of a unit's sum follows from the sizes of
        the units that were seen. It is widened to hold the weights that were seen.
    unit : (n,), rows of one unit count as one observation; each row is its own where None.
    level : nominal level, reached as n grows.

    References
    ----------
    Empirical likelihood for contextual bandits (Karampatziakis, Langford and Mineiro, 2020),
    section 4 and appendix. The release ``vw-estimators`` 0.2.2 gives the same ends, but takes the
    smallest reward as upper end where no row more satisfies the constraint; here that end is the
    largest reward.

    >>> found = empirical_likelihood_interval(
    ...     np.ones(100), np.tile([0.0, 1.0], 50), reward_range=(0, 1), weight_range=(1, 1))
    >>> round(found.low, 3), round(found.high, 3)
    (0.396, 0.604)
    """
    from scipy.special import fdtri

    weight, weighted = unit_means(weight, weight * reward, unit)
    n = len(weight)
    smallest, largest = relative_sizes(unit)
    weights = (
        min(smallest * weight_range[0], float(weight.min())),
        max(largest * weight_range[1], float(weight.max())),
    )
    least = _least(weight, weights[1] if weight.sum() < n else weights[0])
    phi = -(least + float(fdtri(1, n, level))) / (2 * (1 + n))
    lowest, highest = reward_range
    low = lowest + _lower_end(weight, weighted - lowest * weight, weights, phi)
    high = highest - _lower_end(weight, highest * weight - weighted, weights, phi)
    low = min(max(low, lowest), highest)
    return Interval(low, max(low, min(high, highest)), level, "empirical-likelihood")


def _least(weight: FloatArray, added: float) -> float:
    """Return the smallest divergence from equal probabilities, times n + 1."""
    n = len(weight)
    if math.isinf(added):
        return 1 + 1 / n
    means = _Means.of(weight, np.zeros(n), added)
    return (1 + n) * _ratio((means.weight - 1) ** 2, means.variance)


def _lower_end(
    weight: FloatArray, gain: FloatArray, weights: tuple[float, float], phi: float
) -> float:
    """Return the smallest sum p w (r - r_0), over units more of reward r_0 and extreme weight.

    -inf where no probabilities are near enough.

    Parameters
    ----------
    weight : (n,)
    gain : (n,), w (r - r_0).
    weights : smallest and largest weight.
    phi : minus half of the largest divergence, over n + 1.
    """
    ends = []
    for added in weights:
        if math.isinf(added):
            end = _unbounded_end(weight, gain, phi)
        else:
            end = _bounded_end(_Means.of(weight, gain, added), phi)
        if end is not None:
            ends.append(end)
    return min(ends, default=-math.inf)


def _bounded_end(means: _Means, phi: float) -> float | None:
    """Return the end with a unit more of finite weight; None where no probabilities are near."""
    covariance = means.product - means.weight * means.gain
    excess = 1 - means.weight
    center = means.gain + _ratio(excess * covariance, means.variance)
    spread = _ratio(covariance**2, means.variance) - (means.gain_square - means.gain**2)
    return _end(center, spread, phi + 0.5 * _ratio(excess**2, means.variance))


def _unbounded_end(weight: FloatArray, gain: FloatArray, phi: float) -> float | None:
    """Return the end as the weight of the unit more grows without bound."""
    n, total = len(weight), float(gain.sum())
    spread = total**2 / (n * (1 + n)) - float(gain @ gain) / (1 + n)
    return _end(total / n, spread, phi + 1 / (2 * n))


def _end(center: float, spread: float, slack: float) -> float | None:
    """Return center - sqrt(2 spread slack), both of which are at most 0 up to rounding."""
    if slack > 0:
        return None
    return center - math.sqrt(2 * max(0.0, spread * slack))


def _ratio(value: float, variance: float) -> float:
    """Return the quotient, 0 where all weights are equal."""
    return value / variance if variance > 0 else 0.0
