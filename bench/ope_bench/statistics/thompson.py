"""With which probability Thompson sampling chooses each arm."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ope_bench.base.errors import DataError
from ope_bench.contracts.arrays import FloatArray, validate_array

REACH = (-9.0, -6.0, -4.0, -2.5, -1.0, 0.0, 1.0, 2.5, 4.0, 6.0, 9.0)
"""Where the line is cut, in deviations of each arm; beyond the ends lies a mass of 1e-19."""

NODES = 12
FAR, LEAST = 50.0, 1e-7
"""Distance of means that leaves no chance, and least deviation, in the largest deviation."""


def thompson_propensity(mean: npt.ArrayLike, sd: npt.ArrayLike) -> FloatArray:
    """Return the probability that each arm's normal draw is the largest, as `mean`.

        p_a = ∫ φ((z - μ_a) / s_a) / s_a ∏_{b ≠ a} Φ((z - μ_b) / s_b) dz

    by Gauss-Legendre quadrature between the bends of all arms, to 1e-10.

    Parameters
    ----------
    mean, sd : (n_arms,), or (n, n_arms) for several decisions: of the posterior at that time.

    Raises
    ------
    DataError : shapes differ, or a deviation is not positive.

    >>> thompson_propensity([0.0, 0.5, 1.0], [1.0, 1.0, 0.5]).round(5).tolist()
    [0.13896, 0.29309, 0.56795]
    """
    from scipy.special import log_ndtr

    means, deviations = np.asarray(mean), np.asarray(sd)
    shape: tuple[int | str, ...] = ("n", "n_arms") if means.ndim == 2 else ("n_arms",)
    means = np.asarray(validate_array("mean", means, shape), dtype=np.float64)
    deviations = np.asarray(validate_array("sd", deviations, means.shape), dtype=np.float64)
    largest = deviations.max(axis=-1, keepdims=True, initial=0.0)
    if means.size == 0 or not (deviations > LEAST * largest).all():
        msg = f"sd has a value that is not positive, or not over {LEAST} of another; a posterior "
        msg += "without spread is a rule"
        raise DataError(msg)
    x, w = np.polynomial.legendre.leggauss(NODES)
    found = np.empty(means.shape)
    rows = zip(*map(np.atleast_2d, (means, deviations, found)), strict=True)
    for mu, s, out in rows:
        # In the arms' own units, so that neither place nor scale matters.
        scale = float(s.max())
        with np.errstate(over="ignore"):
            mu, s = np.maximum((mu / 2 - mu.max() / 2) / scale, -FAR) * 2, s / scale
        cuts = np.unique(np.add.outer(mu, np.outer(REACH, s)).diagonal(axis1=0, axis2=2))
        half = np.diff(cuts)[:, None] / 2
        z = (half * x + (cuts[:-1, None] + half)).ravel()
        weight = (half * w).ravel()
        standard = (z - mu[:, None]) / s[:, None]
        below = log_ndtr(standard)
        density = -0.5 * standard**2 - 0.5 * np.log(2 * np.pi) - np.log(s)[:, None]
        out[:] = np.exp(density + below.sum(axis=0) - below) @ weight
        out /= out.sum()
    return found
