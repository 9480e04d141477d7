"""Expectations over a standard normal context by randomly shifted quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_bench import FloatArray

__all__ = ["SHIFTS", "normal_expectation"]

SHIFTS = 16
"""Independent random shifts, from whose spread the standard error is taken."""


def normal_expectation(
    f: Callable[[FloatArray], FloatArray],
    d_context: int,
    n_points: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return E f(x) over x ~ N(0, I), unbiased, and its standard error.

    Every shift moves one Kronecker sequence by a uniform vector modulo one, so each shifted mean
    is unbiased, and the means of different shifts are independent.

    Parameters
    ----------
    f : contexts (k, d_context) -> (k,).
    n_points : contexts in all, rounded up to a multiple of the number of shifts.
    rng : draws the shifts.

    References
    ----------
    "Randomization of number theoretic methods for multiple integration" (Cranley and Patterson,
    1976).

    >>> rng = np.random.default_rng(0)
    >>> mean, error = normal_expectation(lambda x: (x**2).sum(axis=1), 2, 4096, rng)
    >>> bool(abs(mean - 2.0) < 5 * error < 0.05)
    True
    """
    per_shift = -(-n_points // SHIFTS)
    width = d_context + d_context % 2
    start = _kronecker(per_shift, width)
    means = np.empty(SHIFTS)
    for shift in range(SHIFTS):
        uniform = start + rng.random(width)
        # The bits of a remainder by one, in a fraction of its time.
        uniform -= np.floor(uniform)
        means[shift] = f(_box_muller(uniform)[:, :d_context]).mean()
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(SHIFTS))


def _kronecker(n: int, width: int) -> FloatArray:
    """Return the multiples of powers of the generalized golden ratio, modulo one: (n, width)."""
    ratio = 2.0
    for _ in range(64):
        ratio = (1.0 + ratio) ** (1.0 / (width + 1))
    steps = ratio ** -np.arange(1.0, width + 1)
    return np.outer(np.arange(n), steps) % 1.0


def _box_muller(uniform: FloatArray) -> FloatArray:
    """Return standard normals from uniforms in [0, 1), pair by pair: (n, width)."""
    # The tent makes the integrand periodic, which shifted points reward with less variance; the
    # minimum keeps the logarithm finite.
    tent = np.minimum(np.abs(2.0 * uniform[:, 0::2] - 1.0), 1.0 - 2.0**-53)
    radius = np.sqrt(-2.0 * np.log1p(-tent))
    angle = 2.0 * np.pi * uniform[:, 1::2]
    return np.hstack([radius * np.cos(angle), radius * np.sin(angle)])
