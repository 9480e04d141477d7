"""Paired comparison of mean squared errors: a studentized swap test.

Two estimators (or one estimator before and after a change) ran on the same replicates. If neither
is better, the two errors of a replicate are exchangeable, so the statistic is compared with its
values under random swaps. The studentized test is exact where errors are exchangeable, also with
heavy tails, and asymptotically valid where only their mean squares agree. Convergence is slow:
between errors of almost constant size and heavy-tailed errors of the same mean square, the test at
5 % rejects far more often with 20 replicates, and still with 100
(results/performance/statistics.md). No test of mean squares is valid there, so a second test
compares typical errors: `ope_bench.statistics.typical`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.random.seeding import stream
from ope_bench.statistics.array_cache import array_cache
from ope_bench.statistics.distribution import squares
from ope_bench.statistics.rearrangement import KEPT_BYTES, BoolArray, RatioTest, p_values
from ope_bench.statistics.tails import heavy_tailed

__all__ = [
    "Paired",
    "RowComparisons",
    "compare_rows",
    "detectable_growth",
    "holm",
    "paired",
    "swap_test",
]

ENUMERATED = 13
"""Up to this many replicates, all 2^n swaps are enumerated instead of sampled."""

POWER = 0.8
"""Power with which a detectable difference is found."""

LARGEST_LOG = 700.0
"""Logarithms beyond this overflow when exponentiated."""


def swap_test(
    after: FloatArray, before: FloatArray, *, null_ratio: float = 1.0, level: float = 0.05
) -> RatioTest:
    """Test whether the mean of ``after`` differs from ``null_ratio`` times that of ``before``.

    Formula: T = (log M1 - log M0 - log null_ratio) / se with
    se^2 = sum_i (a_i / M1 - b_i / M0)^2 / (n (n - 1)), referred to the distribution of T when
    (a_i / null_ratio, b_i) are swapped with probability 1/2 in each pair.

    Assumptions: pairs are independent. Exact where, under the null, the two values of a pair are
    exchangeable; asymptotic otherwise. Fails when: the two are not exchangeable (one with errors
    of almost constant size, the other with heavy tails) and replicates are few: then the test
    favors the heavy-tailed side.

    Parameters
    ----------
    after, before : (rows, n), squared errors of the same replicates, at least 0.
    null_ratio : ratio of mean squared errors under the null.
    level : family-wise level with which the p-values will be compared; it only sets the number of
        swaps that are drawn.

    References
    ----------
    "Studentized permutation tests for non-i.i.d. hypotheses and the generalized Behrens-Fisher
    problem" (Janssen, 1997).

    >>> rng = np.random.default_rng(0)
    >>> errors = rng.normal(size=(1, 50)) ** 2
    >>> bool(swap_test(1.3 * errors, errors).p_greater[0] < 0.001)
    True
    """
    after, before = np.atleast_2d(after), np.atleast_2d(before)
    pairs = _Pairs.of(after / null_ratio, before)
    observed, log_ratio, standard_error = pairs.statistic(np.ones((1, after.shape[1])))
    greater, less = p_values(pairs, observed[0], level)
    return RatioTest(
        log_ratio[0] + (math.log(null_ratio)),
        standard_error[0],
        observed[0],
        greater,
        less,
    )


@dataclass(frozen=True)
class _Pairs:
    """Half sums c and half differences d of each row's pairs, in units of the mean of c."""

    c: FloatArray
    d: FloatArray

    @property
    def enumerated(self) -> int:
        return 2**self.width if self.width <= ENUMERATED else 0

    @property
    def width(self) -> int:
        return int(self.c.shape[1])

    def among(self, chosen: BoolArray) -> _Pairs:
        return _Pairs(self.c[chosen], self.d[chosen])

    def arrangements(self, start: int, size: int, stage: str) -> FloatArray:
        return _signs(self.width, start, size, stage)

    @cached_property
    def _products(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Products c d (rows, n), and the sums of squares of c and of d (rows,)."""
        return self.c * self.d, (self.c**2).sum(axis=1), (self.d**2).sum(axis=1)

    @classmethod
    def of(cls, after: FloatArray, before: FloatArray) -> _Pairs:
        c, d = (after + before) / 2, (after - before) / 2
        scale = c.mean(axis=1, keepdims=True)
        # All errors are zero: no difference.
        scale[scale == 0] = 1.0
        return cls(c / scale, d / scale)

    def statistic(self, sign: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return T, log ratio and standard error of every row under every sign vector.

        With half sums of mean 1 the means are 1 + s and 1 - s, where s is the signed mean of d.
        This form loses no digits when the pairs are almost equal.
        """
        n = sign.shape[1]
        shift = sign @ self.d.T
        shift /= n
        cd, c2, d2 = self._products
        cross = sign @ cd.T
        # In place: most of the time of so many small operations would go to new memory.
        spread = np.square(shift)
        spread *= c2
        cross *= 2 * shift
        spread -= cross
        spread += d2
        np.copyto(spread, 0.0, where=spread < 1e-13 * d2)
        np.clip(shift, -1.0, 1.0, out=shift)
        one_sided = np.abs(shift) > 1 - 1e-14
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.arctanh(shift)
            log_ratio *= 2
            product = 1 - np.square(shift)
            np.copyto(product, np.nan, where=one_sided)
            standard_error = np.sqrt(spread, out=spread)
            standard_error *= 2
            standard_error /= product
            standard_error /= math.sqrt(n * max(n - 1, 1))
            t = log_ratio / standard_error
        # One side is all zero, or all pairs have the same ratio: the statistic is infinite.
        extreme = one_sided | (standard_error == 0)
        if extreme.any():
            t = np.where(extreme, np.where(shift == 0, 0.0, np.copysign(np.inf, shift)), t)
        return t, log_ratio, standard_error


@array_cache(KEPT_BYTES)
def _signs(n: int, start: int, size: int, stage: str) -> FloatArray:
    """Return signs (size, n): +1 for pairs that stay, -1 for swapped pairs."""
    if n <= ENUMERATED:
        bits = (np.arange(start, start + size)[:, None] >> np.arange(n)) & 1
    else:
        rng = stream("swap test", stage, n, start)
        bits = rng.integers(0, 2, size=(size, n))
    return np.asarray(bits * 2.0 - 1.0, dtype=np.float64)


@dataclass(frozen=True)
class Paired:
    """One paired comparison; None where undefined.

    Parameters
    ----------
    n : number of pairs.
    ratio : mean squared error after over before.
    low, high : 95 % interval of ``ratio``.
    standard_error : of the log ratio.
    p_greater, p_less : one-sided p-values of "the ratio exceeds (is below) 1".
    heavy_tailed : one replicate has so large a share of either side's squares that test and
        interval are unreliable with few replicates.
    """

    n: int
    ratio: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    p_greater: float
    p_less: float
    heavy_tailed: bool = False


def paired(after: FloatArray, before: FloatArray, *, level: float = 0.95) -> Paired:
    """Compare two estimators' errors on the same replicates.

    Parameters
    ----------
    after, before : (n,), errors (their sign does not matter).
    level : confidence level of the interval.
    """
    from scipy.special import stdtrit

    a, b = squares(after, before)
    n = len(a)
    if n == 0:
        return Paired(0, None, None, None, None, 1.0, 1.0)
    test = swap_test(a[None], b[None])
    log_ratio, se = float(test.log_ratio[0]), float(test.standard_error[0])
    p = float(test.p_greater[0]), float(test.p_less[0])
    heavy = bool(heavy_tailed(np.stack([a, b])).any())
    if a.sum() == 0 and b.sum() == 0:
        return Paired(n, 1.0, None, None, None, *p)
    ratio = math.exp(log_ratio) if abs(log_ratio) < LARGEST_LOG else None
    if ratio is None or n < 2 or not math.isfinite(se):
        return Paired(n, 0.0 if a.sum() == 0 else None, None, None, None, *p, heavy)
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * se
    low, high = (_exp(log_ratio + side * reach) for side in (-1, 1))
    return Paired(n, ratio, low, high, se, *p, heavy)


def _exp(exponent: float) -> float | None:
    """Return the exponential, None if it overflows."""
    return math.exp(exponent) if exponent < LARGEST_LOG else None


def detectable_growth(
    standard_error: float, n: int, level: float, *, margin: float = 0.0, degrees: int | None = None
) -> float | None:
    """Return the growth of the mean square that a test at this level detects with power .8.

    Formula: exp(log(1 + margin) + (t_(1 - level) + z_.8) se) - 1, by the t approximation; None
    where it overflows.

    Parameters
    ----------
    standard_error : of the log ratio of mean squares.
    n : replicates.
    level : one-sided, of a single comparison.
    margin : growth that is tolerated.
    degrees : degrees of freedom; n - 1 by default.
    """
    from scipy.special import ndtri, stdtrit

    critical = float(stdtrit(n - 1 if degrees is None else degrees, 1 - level))
    exponent = math.log1p(margin) + (critical + float(ndtri(POWER))) * standard_error
    return math.expm1(exponent) if exponent < LARGEST_LOG else None


@dataclass(frozen=True)
class RowComparisons:
    """Comparisons of rows with a reference row, one entry per row.

    Parameters
    ----------
    p : two-sided p-values of "as good as the reference row".
    standard_error : of the log ratio of mean squares; NaN without a comparison.
    n : number of replicates that the row shares with the reference.
    """

    p: FloatArray
    standard_error: FloatArray
    n: IntArray


def compare_rows(errors: FloatArray, reference: int) -> RowComparisons:
    """Compare the mean square of every row with that of a reference row.

    Parameters
    ----------
    errors : (rows, n), NaN where a row lacks a replicate; each row is compared on the replicates
        that it shares with the reference.
    reference : index of the row to compare with; its own p-value is 1.
    """
    rows = len(errors)
    p, standard_error = np.ones(rows), np.full(rows, np.nan)
    present = np.isfinite(errors)
    shared = present & present[reference]
    # Rows with the same replicates share one call, and so the same swaps.
    patterns: dict[bytes, list[int]] = {}
    for row in range(rows):
        if row != reference and shared[row].any():
            patterns.setdefault(shared[row].tobytes(), []).append(row)
    for members in patterns.values():
        use = shared[members[0]]
        ours, theirs = errors[members][:, use], errors[reference, use]
        # In units of each pair's largest error, so that squares neither overflow nor underflow.
        unit = np.maximum(np.abs(ours).max(axis=1), np.abs(theirs).max())[:, None]
        unit[unit == 0] = 1.0
        test = swap_test(np.square(ours / unit), np.square(theirs / unit))
        p[members] = np.minimum(1.0, 2 * np.minimum(test.p_greater, test.p_less))
        standard_error[members] = test.standard_error
    return RowComparisons(p, standard_error, shared.sum(axis=1))


def holm(p: FloatArray) -> FloatArray:
    """Return Holm's adjusted p-values: rejecting those <= alpha has family-wise error <= alpha.

    Formula: sorted ascending, p~_(k) = max over j <= k of min(1, (m - j + 1) p_(j)).

    References
    ----------
    "A simple sequentially rejective multiple test procedure" (Holm, 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(stepped) if len(p) else stepped
    return adjusted
