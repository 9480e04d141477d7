"""A policy over one continuous action, and its embedding, in closed form."""

from __future__ import annotations

import math

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.errors import DataError
from ope_bench.policies import PairFunction, Policy

__all__ = ["GaussianEmbedding", "GaussianPolicy", "normal_density"]

NODES = 32
"""Gauss-Hermite nodes of `GaussianPolicy.expect`: exact for polynomials up to degree 63."""


class GaussianPolicy:
    """a | x ~ N(intercept + coefficients . x, std**2).

    Parameters
    ----------
    intercept : mean action at x = 0.
    coefficients : (d_context,)
    std : standard deviation of the action.

    >>> policy = GaussianPolicy(1.0, np.array([2.0]), 0.5)
    >>> policy.mean(np.array([[3.0]]))
    array([7.])
    """

    def __init__(self, intercept: float, coefficients: FloatArray, std: float) -> None:
        self.intercept = intercept
        self.coefficients = coefficients
        self.std = std

    def mean(self, context: FloatArray) -> FloatArray:
        """The mean action: (n,)."""
        return self.intercept + context @ self.coefficients

    def probability(self, context: FloatArray, action: FloatArray) -> FloatArray:
        """Density of each row's action: (n,)."""
        return normal_density(action, self.mean(context), self.std)

    def sample(self, context: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One action a row: (n,)."""
        return self.mean(context) + self.std * rng.standard_normal(len(context))

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """E f(x, a) over actions by Gauss-Hermite quadrature: (n,)."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        mean, out = self.mean(context), np.zeros(len(context))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            out += weight * f(context, mean + self.std * node)  # type: ignore[arg-type]
        return out


class GaussianEmbedding:
    """g | a ~ N(a, std**2) in the first column, N(0, 1) in every other.

    With ``std=0`` the first column is the action itself: ``probability`` is then 1 where they are
    equal, a mass, while ``marginal`` stays a density; ratios of marginals are right either way.

    Parameters
    ----------
    std : noise of the first column.
    n_distractors : further columns that say nothing about the action.
    """

    def __init__(self, std: float, n_distractors: int = 0) -> None:
        self.std = std
        self.n_distractors = n_distractors

    def probability(self, embedding: FloatArray, action: FloatArray) -> FloatArray:
        """p(g|a) of each row's pair: (n,)."""
        if self.std == 0:
            first = (embedding[:, 0] == action).astype(np.float64)
        else:
            first = normal_density(embedding[:, 0], action, self.std)
        density: FloatArray = first * self._distractors(embedding)
        return density

    def sample(self, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One embedding a row: (n, 1 + n_distractors)."""
        columns = rng.standard_normal((len(action), 1 + self.n_distractors))
        columns[:, 0] = action + self.std * columns[:, 0]
        return columns

    def support(self) -> None:
        """There is no finite list of embeddings."""

    def marginal(self, policy: Policy, context: FloatArray, embedding: FloatArray) -> FloatArray:
        """The policy's density over embeddings, N(mean(x), policy.std**2 + std**2): (n,).

        Raises
        ------
        DataError : with noise, any other policy than a `GaussianPolicy`.
        """
        if self.std == 0:
            first = policy.probability(context, embedding[:, 0])
        elif type(policy) is GaussianPolicy:
            spread = math.hypot(policy.std, self.std)
            first = normal_density(embedding[:, 0], policy.mean(context), spread)
        else:
            msg = f"the noisy marginal under a {type(policy).__name__} has no closed form"
            raise DataError(msg)
        density: FloatArray = first * self._distractors(embedding)
        return density

    def _distractors(self, embedding: FloatArray) -> FloatArray:
        density: FloatArray = normal_density(embedding[:, 1:], np.zeros(1), 1.0).prod(axis=1)
        return density


def normal_density(value: FloatArray, mean: FloatArray, std: float) -> FloatArray:
    """Density of N(mean, std**2)."""
    z = (value - mean) / std
    density: FloatArray = np.exp(-0.5 * z * z) / (std * math.sqrt(2.0 * math.pi))
    return density
