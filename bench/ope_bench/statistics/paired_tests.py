"""Tests on errors from the same data sets: a studentized swap test and its variants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.random import stream
from ope_bench.statistics.error_distribution import array_cache, special_function

# p-values from rearranged data, with as many draws as the level requires.

FIRST_DRAWS = 9_999
PROMISING = 20
"""Rows whose statistic is reached by at most this many of the first draws get the full number."""

BLOCK_ENTRIES = 1 << 18
"""Entries of a block of arrangements, (draws, width).

The block size depends on the width alone, so that a row's p-value does not depend on the number of
rows.
"""

KEPT_BYTES = 24 * 8 * BLOCK_ENTRIES
"""Arrangements that are kept for further tests, of each kind: 24 whole blocks, 50 MB."""


@dataclass(frozen=True)
class RatioTest:
    """Log ratios of mean squared errors, one entry per row.

    Parameters
    ----------
    log_ratio : (rows,), log of mean squared error after over before.
    standard_error : (rows,), of ``log_ratio``, by the delta method.
    statistic : (rows,), studentized distance from the null ratio.
    p_greater, p_less : (rows,), one-sided.
    """

    log_ratio: FloatArray
    standard_error: FloatArray
    statistic: FloatArray
    p_greater: FloatArray
    p_less: FloatArray


# Paired comparison of mean squared errors: a studentized swap test.

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
    greater, less = pairs.p_values(observed[0], level)
    return RatioTest(
        log_ratio[0] + math.log(null_ratio), standard_error[0], observed[0], greater, less
    )


@dataclass(frozen=True)
class _Pairs:
    """Half sums c and half differences d of each row's pairs, in units of the mean of c."""

    c: FloatArray
    d: FloatArray

    @property
    def width(self) -> int:
        return int(self.c.shape[1])

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
        # What is left of equal terms of size d2 after rounding, 2^-52 of each, is no spread.
        np.copyto(spread, 0.0, where=spread < 1e-13 * d2)
        np.clip(shift, -1.0, 1.0, out=shift)
        # All but some units in the last place of a mean of 1 is on one side.
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

    def p_values(self, observed: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return one-sided p-values of the observed statistics, from above and from below.

        Parameters
        ----------
        observed : (rows,), the observed statistics.
        level : family-wise level with which the p-values will be compared; it only sets the
            number of arrangements that are drawn.
        """
        rows = len(observed)
        if self.width <= ENUMERATED:
            total = 2**self.width
            greater, less = self._reached(observed, total, "first")
            return greater / total, less / total
        greater, less = self._reached(observed, FIRST_DRAWS, "first")
        wanted = math.ceil(10 * rows / level)
        promising = np.minimum(greater, less) <= PROMISING
        # More draws do not help a row whose values are all equal.
        promising &= (observed != 0) & (wanted > FIRST_DRAWS)
        if promising.any():
            part = _Pairs(self.c[promising], self.d[promising])
            more = part._reached(observed[promising], wanted, "full")
            greater[promising], less[promising] = more
        drawn = np.where(promising, wanted, FIRST_DRAWS)
        return (greater + 1) / (drawn + 1), (less + 1) / (drawn + 1)

    def _reached(
        self, observed: FloatArray, draws: int, stage: str
    ) -> tuple[FloatArray, FloatArray]:
        """Count the arrangements that reach the observed statistic, from above and from below."""
        step = max(16, min(1024, BLOCK_ENTRIES // self.width))
        # A tolerance, so that in spite of rounding the observed arrangement counts as reached.
        slack = 1e-9 * np.where(np.isfinite(observed), np.abs(observed), 0.0)
        greater, less = np.zeros(len(observed)), np.zeros(len(observed))
        for start in range(0, draws, step):
            size = min(step, draws - start)
            t, _, _ = self.statistic(_signs(self.width, start, size, stage))
            greater += (t >= observed - slack).sum(axis=0)
            less += (t <= observed + slack).sum(axis=0)
        return greater, less


@array_cache(KEPT_BYTES)
def _signs(n: int, start: int, size: int, stage: str) -> FloatArray:
    """Return signs (size, n): +1 for pairs that stay, -1 for swapped pairs."""
    if n <= ENUMERATED:
        bits = (np.arange(start, start + size)[:, None] >> np.arange(n)) & 1
    else:
        rng = stream("swap test", stage, n, start)
        bits = rng.integers(0, 2, size=(size, n))
    return np.asarray(bits * 2.0 - 1.0, dtype=np.float64)


def detectable_growth(
    standard_error: float, n: int, level: float, margin: float = 0.0
) -> float | None:
    """Return the growth of the mean square that a test at this level detects with power .8.

    Formula: (1 + margin) exp((t_(1 - level) + z_.8) se) - 1, by the t approximation; None where it
    overflows.

    Parameters
    ----------
    standard_error : of the log ratio of mean squares.
    n : replicates.
    level : one-sided, of a single comparison.
    margin : growth that is no difference.
    """
    stdtrit, ndtri = map(special_function, ("stdtrit", "ndtri"))
    critical = float(stdtrit(n - 1, 1 - level)) + float(ndtri(POWER))
    exponent = math.log1p(margin) + critical * standard_error
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


# Paired comparison of typical errors: signed ranks of absolute errors.


def signed_ranks(
    after: FloatArray, before: FloatArray, *, null_ratio: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Test |after| against ``null_ratio`` times |before| by Wilcoxon's signed ranks.

    Formula: the sum of the ranks of |d_i| over the d_i > 0, d_i = |after_i| / null_ratio -
    |before_i|; ties share ranks, differences of zero are left out.

    Assumptions: pairs are independent; under the null the d_i are symmetric about zero.
    Fails when: one side has errors of constant size and the other mostly smaller, rarely much
    larger ones; then the test answers only which side is closer more often, and its outcome is
    worded so.

    Parameters
    ----------
    after, before : (rows, n), errors of the same replicates; their sign does not matter.
    null_ratio : ratio of absolute errors under the null.

    Returns
    -------
    One-sided p-values (rows,) of "after is larger" and of "after is smaller": exact up to
    `EXACT` replicates that differ, by the normal approximation else.

    References
    ----------
    "Individual comparisons by ranking methods" (Wilcoxon, 1945).

    >>> errors = np.linspace(0.1, 2.0, 20)[None]
    >>> greater, less = signed_ranks(1.1 * errors, errors)
    >>> bool(greater[0] < 1e-5), bool(less[0] > 0.99)
    (True, True)
    """
    from scipy.special import ndtr
    from scipy.stats import rankdata

    a, b = np.atleast_2d(np.abs(after) / null_ratio), np.atleast_2d(np.abs(before))
    # Differences within rounding count as zero.
    difference = np.where(np.isclose(a, b, rtol=1e-12, atol=0.0), 0.0, a - b)
    greater, less = np.ones(len(difference)), np.ones(len(difference))
    many: dict[int, list[int]] = {}
    for row, count in enumerate((difference != 0).sum(axis=1)):
        # Rows in which nothing differs have nothing to rank.
        if 0 < count <= EXACT:
            moved = difference[row][difference[row] != 0]
            greater[row], less[row] = _exact_p_values(moved)
        elif count:
            many.setdefault(int(count), []).append(row)
    for rows in many.values():
        moved = np.stack([values[values != 0] for values in difference[rows]])
        ranks = rankdata(np.abs(moved), axis=1)
        # Under the null each rank has either sign; ties are in the sum of their squares.
        z = np.where(moved > 0, ranks, 0.0).sum(axis=1) - ranks.sum(axis=1) / 2
        z /= np.sqrt(np.square(ranks).sum(axis=1) / 4)
        greater[rows], less[rows] = ndtr(-z), ndtr(z)
    return greater, less


EXACT = 50
"""Most replicates for which the distribution of the rank sum is enumerated."""


def _exact_p_values(moved: FloatArray) -> tuple[float, float]:
    """Return one-sided p-values of the rank sum of the positive differences, none of them zero.

    All sign patterns are counted by their rank sums; scipy does so only where no ranks are tied.
    """
    from scipy.stats import rankdata

    # Twice the ranks are integers, also where ties share a rank.
    ranks = np.rint(2 * rankdata(np.abs(moved))).astype(np.int64)
    counts = np.zeros(int(ranks.sum()) + 1)
    counts[0] = 1.0
    for rank in ranks:
        counts[rank:] = counts[rank:] + counts[: len(counts) - rank]
    observed = int(ranks[moved > 0].sum())
    total = 2.0 ** len(moved)
    return float(counts[observed:].sum() / total), float(counts[: observed + 1].sum() / total)
