"""Continuous actions for the small problems: Gaussian policies and embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.policies import PairFunction, Policy

__all__ = ["GaussianEmbedding", "GaussianPolicy"]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)


def _density(z: FloatArray, scale: float) -> FloatArray:
    density: FloatArray = np.exp(-0.5 * (z / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
    return density


@dataclass(frozen=True)
class GaussianPolicy:
    """a | x ~ N(shift + slope x_0, scale^2)."""

    slope: float
    shift: float
    scale: float

    def mean(self, context: FloatArray) -> FloatArray:
        """Return the mean action: (n,)."""
        return self.shift + self.slope * context[:, 0]

    def probability(self, context: FloatArray, action: FloatArray) -> FloatArray:
        """Return the density of each row's action: (n,)."""
        return _density(action - self.mean(context), self.scale)

    def sample(self, context: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one action per row: (n,)."""
        return self.mean(context) + self.scale * rng.standard_normal(len(context))

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Compute E f(x, a) by Gauss-Hermite quadrature, exact for polynomials: (n,)."""
        mean, out = self.mean(context), np.zeros(len(context))
        for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
            out += weight * f(context, mean + self.scale * node)  # type: ignore[arg-type]
        return out


@dataclass(frozen=True)
class GaussianEmbedding:
    """g | a ~ N(a, scale^2), one column."""

    scale: float

    def probability(self, embedding: FloatArray, action: FloatArray) -> FloatArray:
        """Return the density of each row's pair: (n,)."""
        return _density(embedding[:, 0] - action, self.scale)

    def sample(self, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one embedding per row: (n, 1)."""
        return (action + self.scale * rng.standard_normal(len(action)))[:, None]

    def support(self) -> None:
        """Return None: there are infinitely many embeddings."""

    def marginal(self, policy: Policy, context: FloatArray, embedding: FloatArray) -> FloatArray:
        """Return the density in closed form, for Gaussian policies only: (n,)."""
        if not isinstance(policy, GaussianPolicy):
            msg = f"no closed form for {type(policy).__name__}"
            raise TypeError(msg)
        scale = math.hypot(policy.scale, self.scale)
        return _density(embedding[:, 0] - policy.mean(context), scale)
