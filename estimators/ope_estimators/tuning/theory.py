"""The rule ``theory``: how far weights are shrunk so that a bound on the error is balanced."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import FloatArray

__all__ = ["shrinkage_by_theory"]


def shrinkage_by_theory(
    weight: FloatArray,
    delta: float,
    n: int | None = None,
    row_weight: FloatArray | None = None,
) -> float:
    """The λ in (0, 1] that solves

        λ² mean_i [λ + (1 - λ) w_i^m]^(2/m) = 2 ln(1/δ) / (3 n),   m = n^(1/4)

    The left side grows from 0 to 1; where the right side is 1 or more, λ is 1. n is the number of
    independent units; of weights where None. The mean is weighted where rows stand for several.

    References
    ----------
    Subgaussian and differentiable importance sampling for off-policy evaluation and learning
    (Metelli, Russo and Restelli, 2021), in the form of Cross-validated off-policy evaluation
    (Cief, Kveton and Kompan, 2025).

    Note: the code of the latter sets δ = .95 instead of .05, which makes λ about 7.6 times too
    small. The code of the former shrinks instead of raising to the power m: it solves
    x² mean_i [w_i / (1 - x + x w_i)]² = 2 ln(1/δ) / (3 √n), and λ = x n^(-1/4).

    >>> round(shrinkage_by_theory(np.ones(1000), 0.05), 6)
    0.04469
    """
    from scipy.optimize import brentq

    n = len(weight) if n is None else n
    target = math.log(2.0 * math.log(1.0 / delta) / (3.0 * n))
    if target >= 0:
        return 1.0
    power = n**0.25
    with np.errstate(divide="ignore"):
        log_weight = power * np.log(weight)

    def excess(value: float) -> float:
        # In logarithms, since powers of large weights overflow.
        rest = math.log1p(-value) if value < 1 else -math.inf
        log_terms = 2.0 / power * np.logaddexp(math.log(value), rest + log_weight)
        top = float(log_terms.max())
        terms = np.exp(log_terms - top)
        mean = math.log(float(np.average(terms, weights=row_weight))) + top
        return 2.0 * math.log(value) + mean - target

    # No mean is larger than the square of the largest weight, or 1.
    low = math.exp(target / 2.0) / max(1.0, float(weight.max()))
    if excess(low) >= 0:
        return low
    return float(brentq(excess, low, 1.0, xtol=1e-12, rtol=1e-10))
