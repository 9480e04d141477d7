"""A policy over one continuous action, and its embedding, in closed form."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import DataError, FloatArray, PairFunction, Policy, require_one_per_row

__all__ = ["GaussianEmbedding", "GaussianPolicy", "normal_density"]

STEP = 0.25
"""Standard deviations between the nodes of `GaussianPolicy.expect`."""

REACH = 8.5
"""Standard deviations from the mean to the outermost nodes; beyond lies a mass of 2e-17."""


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
        """Return the mean action: (n,)."""
        return self.intercept + context @ self.coefficients

    def probability(self, context: FloatArray, action: FloatArray) -> FloatArray:
        """Return the density of each row's action: (n,)."""
        require_one_per_row("action", action, len(context))
        return normal_density(action, self.mean(context), self.std)

    def sample(self, context: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one action per row: (n,)."""
        return self.mean(context) + self.std * rng.standard_normal(len(context))

    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        """Return E f(x, a) over actions by the trapezoidal rule: (n,).

        Nodes are equally spaced, with a shift of each context's own. For a smooth f the error is
        of the order of rounding, whatever the shift. For a step, as in trees, it is the density
        at the step times the distance from node to step: with independent shifts these errors
        have mean zero and average out over rows, which those of common nodes do not.
        """
        mean, shift = self.mean(context), _shift(context)
        out, total = np.zeros(len(context)), np.zeros(len(context))
        for k in range(-round(REACH / STEP), round(REACH / STEP) + 1):
            node = STEP * (k + shift)
            weight = np.exp(-0.5 * node * node)
            out += weight * f(context, mean + self.std * node)  # type: ignore[arg-type]
            total += weight
        return out / total


class GaussianEmbedding:
    """g | a ~ N(a, std**2) in the first column, N(0, 1) in every other.

    With ``std=0`` the first column is the action itself: ``probability`` is then 1 where they are
    equal, a mass, while ``marginal`` stays a density; ratios of marginals are correct in both
    cases.

    Parameters
    ----------
    std : noise of the first column.
    n_distractors : further columns that are independent of the action.
    """

    def __init__(self, std: float, n_distractors: int = 0) -> None:
        self.std = std
        self.n_distractors = n_distractors

    def probability(self, embedding: FloatArray, action: FloatArray) -> FloatArray:
        """Return p(g|a) of each row's pair: (n,)."""
        if self.std == 0:
            first = (embedding[:, 0] == action).astype(np.float64)
        else:
            first = normal_density(embedding[:, 0], action, self.std)
        density: FloatArray = first * self._distractors(embedding)
        return density

    def sample(self, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one embedding per row: (n, 1 + n_distractors)."""
        columns = rng.standard_normal((len(action), 1 + self.n_distractors))
        columns[:, 0] = action + self.std * columns[:, 0]
        return columns

    def support(self) -> None:
        """Return None: there are infinitely many embeddings."""

    def marginal(self, policy: Policy, context: FloatArray, embedding: FloatArray) -> FloatArray:
        """Return the policy's density over embeddings, N(mean(x), policy.std**2 + std**2): (n,).

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


def _shift(context: FloatArray) -> FloatArray:
    """Return a number in [-1/2, 1/2) for each context, from its bits: (n,).

    The mixing function is that of SplitMix64, one column after the other.
    """
    # -0.0 + 0.0 is 0.0, so that equal numbers have equal bits.
    bits = np.ascontiguousarray(context + 0.0, dtype=np.float64).view(np.uint64)
    state = np.zeros(len(context), dtype=np.uint64)
    for column in bits.T:
        state = (state ^ column) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5


def normal_density(value: FloatArray, mean: FloatArray, std: float) -> FloatArray:
    """Return the density of N(mean, std**2)."""
    z = (value - mean) / std
    density: FloatArray = np.exp(-0.5 * z * z) / (std * math.sqrt(2.0 * math.pi))
    return density
