"""Intervals by empirical likelihood from sums over units."""

from __future__ import annotations

import math

from ope_bench import FloatArray, Interval

__all__ = ["interval_of_sums"]


def interval_of_sums(
    n: int,
    sums: FloatArray,
    products: FloatArray,
    reward_range: tuple[float, float],
    level: float,
) -> Interval:
    """Return the interval of `empirical_likelihood_interval` for weights in a range not known.

    Parameters
    ----------
    n : number of units.
    sums : (2,), sums over units of w and of w r, scaled such that means over units are those over
        rows.
    products : (2, 2), sums over units of their products.
    reward_range, level : as there.
    """
    from scipy.special import fdtri

    (weight, gain), ((square, both), (_, gain_square)) = sums.tolist(), products.tolist()
    mean = weight / (n + 1)
    variance = square / (n + 1) - mean**2
    variance = variance if variance > 1e-12 * square / (n + 1) else 0.0
    # The unit more may have any weight: none where the mean is above one.
    least = 1 + 1 / n
    if weight >= n:
        least = (1 + n) * _ratio((mean - 1) ** 2, variance)
    phi = -(least + float(fdtri(1, n, level))) / (2 * (1 + n))

    def lowest(gain: float, gain_square: float, both: float) -> float:
        """Return the least sum p w (r - r_0) over a unit more of weight 0 or without bound."""
        average = gain / (n + 1)
        covariance = both / (n + 1) - mean * average
        center = average + _ratio((1 - mean) * covariance, variance)
        spread = _ratio(covariance**2, variance) - (gain_square / (n + 1) - average**2)
        wide = gain**2 / (n * (1 + n)) - gain_square / (1 + n)
        ends = (
            (center, spread, phi + 0.5 * _ratio((1 - mean) ** 2, variance)),
            (gain / n, wide, phi + 1 / (2 * n)),
        )
        found = (c - math.sqrt(2 * max(0.0, s * slack)) for c, s, slack in ends if slack <= 0)
        return min(found, default=-math.inf)

    low, high = reward_range
    below = (
        gain - low * weight,
        gain_square - 2 * low * both + low**2 * square,
        both - low * square,
    )
    above = (
        high * weight - gain,
        gain_square - 2 * high * both + high**2 * square,
        high * square - both,
    )
    first = min(max(low + lowest(*below), low), high)
    last = max(first, min(high - lowest(*above), high))
    return Interval(first, last, level, "empirical-likelihood")


def _ratio(value: float, variance: float) -> float:
    """Return the quotient, 0 where all weights are equal."""
    return value / variance if variance > 0 else 0.0
