"""Comparison of mean squared errors on different data: a studentized permutation test.

Replicates before and after are unrelated, so under the null the errors of both sides are
exchangeable. The power is far below that on the same data, where the errors of the two sides are
correlated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.random.seeding import stream
from ope_bench.statistics.array_cache import array_cache
from ope_bench.statistics.rearrangement import KEPT_BYTES, BoolArray, RatioTest, p_values

__all__ = ["permutation_test"]


def permutation_test(
    after: FloatArray, before: FloatArray, *, null_ratio: float = 1.0, level: float = 0.05
) -> RatioTest:
    """Test whether the mean of ``after`` differs from ``null_ratio`` times that of ``before``.

    Formula: T = (log M1 - log M0 - log null_ratio) / se with
    se^2 = s1^2 / (n1 M1^2) + s0^2 / (n0 M0^2), referred to the distribution of T when all errors,
    those after over null_ratio, are permuted between the two sides.

    Assumptions: all errors are independent. Exact where, under the null, both sides have the same
    distribution up to null_ratio; asymptotic where only their means agree.
    Fails when: one error dominates and the distributions differ.

    Parameters
    ----------
    after : (rows, n1), squared errors, at least 0.
    before : (rows, n0), of other replicates.
    null_ratio : ratio of mean squared errors under the null.
    level : family-wise level with which the p-values will be compared; it only sets the number of
        permutations that are drawn.

    References
    ----------
    "Studentized permutation tests for non-i.i.d. hypotheses and the generalized Behrens-Fisher
    problem" (Janssen, 1997).

    >>> rng = np.random.default_rng(0)
    >>> before, after = rng.normal(size=(1, 50)) ** 2, 9 * rng.normal(size=(1, 50)) ** 2
    >>> bool(permutation_test(after, before).p_greater[0] < 0.001)
    True
    """
    pool = np.concatenate([after / null_ratio, before], axis=1)
    scale = pool.mean(axis=1, keepdims=True)
    # All errors are zero: no difference.
    scale[scale == 0] = 1.0
    sample = _Pool(pool / scale, after.shape[1])
    as_given = (np.arange(pool.shape[1]) < after.shape[1]).astype(np.float64)
    observed, log_ratio, standard_error = sample.statistic(as_given[None])
    greater, less = p_values(sample, observed[0], level)
    return RatioTest(
        log_ratio[0] + math.log(null_ratio), standard_error[0], observed[0], greater, less
    )


@dataclass(frozen=True)
class _Pool:
    """Errors of both sides, (rows, n1 + n0) of mean 1; ``n_after`` belong to one side."""

    errors: FloatArray
    n_after: int

    @property
    def enumerated(self) -> int:
        return 0

    @property
    def width(self) -> int:
        return int(self.errors.shape[1])

    def among(self, chosen: BoolArray) -> _Pool:
        return _Pool(self.errors[chosen], self.n_after)

    def arrangements(self, start: int, size: int, stage: str) -> FloatArray:
        return _assignments(self.width, self.n_after, start, size, stage)

    def statistic(self, arranged: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return T, log ratio and standard error of every row under each assignment."""
        squares = np.square(self.errors)
        n1, n0 = self.n_after, arranged.shape[1] - self.n_after
        s1, q1 = arranged @ self.errors.T, arranged @ squares.T
        m1, v1 = _moments(s1, q1, n1)
        m0, v0 = _moments(self.errors.sum(axis=1) - s1, squares.sum(axis=1) - q1, n0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(m1) - np.log(m0)
            standard_error = np.sqrt(v1 / (n1 * m1**2) + v0 / (n0 * m0**2))
            t = log_ratio / standard_error
        # One side is all zero, or neither side has any spread.
        extreme = (m1 == 0) | (m0 == 0) | (standard_error == 0)
        t = np.where(extreme, np.where(m1 == m0, 0.0, np.copysign(np.inf, m1 - m0)), t)
        return t, log_ratio, standard_error


def _moments(total: FloatArray, squares: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of each side; sums within rounding of zero count as zero."""
    mean = np.where(total > 1e-12 * n, total / n, 0.0)
    spread = squares / n - mean**2
    spread[spread < 1e-13 * squares] = 0.0
    return mean, spread * n / max(n - 1, 1)


@array_cache(KEPT_BYTES)
def _assignments(n: int, n_after: int, start: int, size: int, stage: str) -> FloatArray:
    """Return assignments (size, n) with ``n_after`` ones in each row."""
    rng = stream("deals", stage, n, n_after, start)
    dealt = np.zeros((size, n))
    order = rng.random((size, n)).argpartition(n_after - 1, axis=1)[:, :n_after]
    np.put_along_axis(dealt, order, 1.0, axis=1)
    return dealt
