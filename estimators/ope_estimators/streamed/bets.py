"""Intervals by a mixture of constant bets from sums over units."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import FloatArray

__all__ = ["end_of", "first_distance", "log_wealth", "nodes", "shares"]

NODES = 8
REACH = 0.1
"""Distance of the outer nodes from the middle, as a share of the end's from the average."""

BLOCK = 8
"""Factors that are multiplied before a logarithm is taken."""

STEP, MOST = 0.02, 700.0


def shares(n: int) -> FloatArray:
    """Return the shares of the wealth that `betting_interval` bets on n units: (25,)."""
    return np.geomspace(min(0.05, 0.1 / math.sqrt(n)), 0.5, 25)


def log_wealth(products: FloatArray, mean: float, share: FloatArray) -> FloatArray:
    """Return sum_i ln(1 - c + c x_i / mean) for each share c."""
    factors = (1.0 - share)[:, None] + np.multiply.outer(share / mean, products)
    whole = factors.shape[1] // BLOCK * BLOCK
    blocks = np.multiply.reduce(factors[:, :whole].reshape(len(share), BLOCK, -1), axis=1)
    found: FloatArray = np.log(blocks).sum(axis=1) + np.log(factors[:, whole:]).sum(axis=1)
    return found


def _excess(gain: FloatArray, threshold: float) -> float:
    most = float(gain.max())
    return most + math.log(float(np.exp(gain - most).mean())) - threshold


def first_distance(products: FloatArray, n: int, threshold: float) -> float:
    """Return how far the logarithm of the end would be below that of the average of n units.

    Parameters
    ----------
    products : of pilot rows.
    n : number of units.
    threshold : logarithm of the wealth at the end.
    """
    from scipy.optimize import brentq

    average = float(products.mean())
    if average <= 0:
        return 1.0

    def excess(distance: float) -> float:
        gain = log_wealth(products, average * math.exp(-distance), shares(n))
        return _excess(gain * (n / len(products)), threshold)

    high = STEP
    while excess(high) < 0 and high < MOST:
        high *= 4
    return float(brentq(excess, 0.0, high, xtol=1e-12)) if high < MOST else MOST


def nodes(average: float, distance: float) -> FloatArray:
    """Return the means at which wealth is summed: (NODES,)."""
    at = np.cos((2 * np.arange(NODES) + 1) * math.pi / (2 * NODES))
    return average * np.exp(-distance * (1.0 + REACH * at))


def end_of(wealth: FloatArray, distance: float, threshold: float) -> tuple[float, bool]:
    """Return where log wealth crosses the threshold, and whether the crossing is bracketed.

    Parameters
    ----------
    wealth : (NODES, 25), logarithms at the nodes.
    distance : of the middle of the nodes.
    """
    at = np.cos((2 * np.arange(NODES) + 1) * math.pi / (2 * NODES))
    excess = np.array([_excess(one, threshold) for one in wealth])
    smooth = np.polynomial.Polynomial.fit(at, excess, NODES - 1, domain=[-1, 1])
    slope, found = smooth.deriv(), 0.0
    for _ in range(50):
        found = float(np.clip(found - smooth(found) / slope(found), -2.0, 2.0))
    return distance * (1.0 + REACH * found), abs(found) <= 1.0
