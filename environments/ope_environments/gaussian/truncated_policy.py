"""Policies without full support on the line: a truncated normal and a single action."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, PairFunction, require_one_per_row
from ope_environments.gaussian.gaussian_policy import GaussianPolicy

__all__ = ["PointPolicy", "TruncatedPolicy"]

NODES = 96
"""Gauss-Legendre nodes of `TruncatedPolicy.expect`."""

REACH = 10.0
"""Standard deviations below the smaller of mean and cut where the lower tail is ignored."""


class TruncatedPolicy(GaussianPolicy):
    """A `GaussianPolicy` that never acts above ``mean(x) + cut * std``.

    Parameters
    ----------
    intercept, coefficients, std : of the normal before truncation.
    cut : end of the support, in standard deviations from the mean.

    >>> policy = TruncatedPolicy(0.0, np.array([0.0]), 1.0, cut=0.0)
    >>> policy.probability(np.zeros((2, 1)), np.array([-1.0, 1.0])).round(4)
    array([0.4839, 0.    ])
    """

    def __init__(
        self, intercept: float, coefficients: FloatArray, std: float, *, cut: float
    ) -> None:
        super().__init__(intercept, coefficients, std)
        self.cut = cut

    def probability(self, context: FloatArray, action: FloatArray) -> FloatArray:
        """Return the density of each row's action, 0 above the cut: (n,)."""
        from scipy.special import ndtr

        inside = action <= self.mean(context) + self.cut * self.std
        return np.where(inside, super().probability(context, action) / ndtr(self.cut), 0.0)

    def sample(self, context: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one action per row by the inverse CDF: (n,)."""
        from scipy.special import ndtr, ndtri

        # 1 - random() lies in (0, 1], where the quantile is finite.
        uniform = 1.0 - rng.random(len(context))
        standard = np.minimum(ndtri(ndtr(self.cut) * uniform), self.cut)
        return self.mean(context) + self.std * standard

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Compute E f(x, a) over actions by Gauss-Legendre quadrature: (n,)."""
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        low = min(0.0, self.cut) - REACH
        standard = low + (nodes + 1.0) / 2.0 * (self.cut - low)
        weights = weights * np.exp(-0.5 * (standard**2 - min(0.0, self.cut) ** 2))
        mean, out = self.mean(context), np.zeros(len(context))
        for at, weight in zip(standard, weights / weights.sum(), strict=True):
            out += weight * f(context, mean + self.std * at)
        return out


class PointPolicy:
    """One action in each context, ``intercept + coefficients . x``.

    ``probability`` is the mass of the action, 1 or 0, not a density: logs of a policy with a
    density almost never contain that action, and only smoothing over actions helps.

    Parameters
    ----------
    intercept : action at x = 0.
    coefficients : (d_context,)
    """

    has_density = False

    def __init__(self, intercept: float, coefficients: FloatArray) -> None:
        self.intercept = intercept
        self.coefficients = coefficients

    def mean(self, context: FloatArray) -> FloatArray:
        """Return the action: (n,)."""
        return self.intercept + context @ self.coefficients

    def probability(self, context: FloatArray, action: FloatArray) -> FloatArray:
        """Return 1 where the action is the policy's, else 0: (n,)."""
        require_one_per_row("action", action, len(context))
        hit = action == self.mean(context)
        return np.where(hit, 1.0, 0.0)

    def sample(self, context: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the action, without randomness: (n,)."""
        return self.mean(context)

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Evaluate f at the action: (n,)."""
        return f(context, self.mean(context))  # type: ignore[arg-type]
