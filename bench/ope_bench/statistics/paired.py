"""Paired comparison of mean squared errors: a studentised swap test.

Two estimators (or one estimator before and after a change) were run on the same replicates. If
neither is better, the two errors of a replicate could change places without anyone noticing, so
the statistic is compared with its values under random swaps. Studentising makes that exact where
errors are exchangeable, heavy tails included, and asymptotically right where only their mean
squares agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.seeding import stream
from ope_bench.statistics.rearrangement import BoolArray, RatioTest, p_values

__all__ = ["Paired", "compare_rows", "holm", "paired", "swap_test"]

ENUMERATED = 13
"""Up to this many replicates all 2^n swaps are tried instead of a sample of them."""


def swap_test(
    after: FloatArray, before: FloatArray, *, null_ratio: float = 1.0, level: float = 0.05
) -> RatioTest:
    """Test whether the mean of ``after`` differs from ``null_ratio`` times that of ``before``.

    Formula: T = (log M1 - log M0 - log null_ratio) / se with
    se^2 = sum_i (a_i / M1 - b_i / M0)^2 / (n (n - 1)), referred to the distribution of T when
    (a_i / null_ratio, b_i) change places with probability 1/2 in each pair.

    Assumptions: pairs are independent. Exact where, under the null, the two of a pair are
    exchangeable; asymptotic otherwise.
    Fails when: one pair dominates both sums and the two are not exchangeable.

    Parameters
    ----------
    after, before : (rows, n), squared errors of the same replicates, at least 0.
    null_ratio : ratio of mean squared errors under the null.
    level : family-wise level that the p-values will be held against; it only sets how many
        swaps are drawn.

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
        n = self.c.shape[1]
        return 2**n if n <= ENUMERATED else 0

    def among(self, chosen: BoolArray) -> _Pairs:
        return _Pairs(self.c[chosen], self.d[chosen])

    def arrangements(self, start: int, size: int, stage: str) -> FloatArray:
        return _signs(self.c.shape[1], start, size, stage)

    @classmethod
    def of(cls, after: FloatArray, before: FloatArray) -> _Pairs:
        c, d = (after + before) / 2, (after - before) / 2
        scale = c.mean(axis=1, keepdims=True)
        # All errors zero: nothing differs.
        scale[scale == 0] = 1.0
        return cls(c / scale, d / scale)

    def statistic(self, sign: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """T, log ratio and standard error of every row under every sign vector.

        With half sums of mean 1 the means are 1 + s and 1 - s, s the signed mean of d. In that
        form nothing cancels when the pairs are almost equal.
        """
        n = sign.shape[1]
        shift = sign @ self.d.T / n
        cross = sign @ (self.c * self.d).T
        c2, d2 = (self.c**2).sum(axis=1), (self.d**2).sum(axis=1)
        spread = shift**2 * c2 - 2 * shift * cross + d2
        spread[spread < 1e-13 * d2] = 0.0
        shift = np.clip(shift, -1.0, 1.0)
        one_sided = np.abs(shift) > 1 - 1e-14
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = 2 * np.arctanh(shift)
            product = np.where(one_sided, np.nan, 1 - shift**2)
            standard_error = 2 * np.sqrt(spread) / product / math.sqrt(n * max(n - 1, 1))
            ratio = log_ratio / standard_error
        # One side all zero, or all pairs in the same ratio: as extreme as can be.
        extreme = one_sided | (standard_error == 0)
        t = np.where(extreme, np.where(shift == 0, 0.0, np.copysign(np.inf, shift)), ratio)
        return t, log_ratio, standard_error


@lru_cache(maxsize=10)
def _signs(n: int, start: int, size: int, stage: str) -> FloatArray:
    """(size, n) of +1 and -1: which pairs stay and which are swapped."""
    if n <= ENUMERATED:
        bits = (np.arange(start, start + size)[:, None] >> np.arange(n)) & 1
    else:
        rng = stream("swap test", stage, n, start)
        bits = rng.integers(0, 2, size=(size, n))
    return np.asarray(bits * 2.0 - 1.0, dtype=np.float64)


@dataclass(frozen=True)
class Paired:
    """One paired comparison; None where a figure does not exist.

    Parameters
    ----------
    n : pairs.
    ratio : mean squared error after over before.
    low, high : 95 % interval of ``ratio``; None for heavy-tailed errors.
    standard_error : of the log ratio.
    p_greater, p_less : one-sided p-values of "the ratio exceeds (is below) 1".
    """

    n: int
    ratio: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    p_greater: float
    p_less: float


def paired(after: FloatArray, before: FloatArray, *, level: float = 0.95) -> Paired:
    """Compare two estimators' errors on the same replicates.

    Parameters
    ----------
    after, before : (n,), errors (their sign does not matter).
    level : of the interval.
    """
    from scipy.special import stdtrit

    from ope_bench.statistics.bootstrap import jointly_heavy_tailed

    a, b = np.square(after), np.square(before)
    n = len(a)
    if n == 0:
        return Paired(0, None, None, None, None, 1.0, 1.0)
    test = swap_test(a[None], b[None])
    log_ratio, se = float(test.log_ratio[0]), float(test.standard_error[0])
    p = float(test.p_greater[0]), float(test.p_less[0])
    if a.sum() == 0 and b.sum() == 0:
        return Paired(n, 1.0, None, None, None, *p)
    ratio = math.exp(log_ratio) if math.isfinite(log_ratio) else None
    if ratio is None or n < 2 or not math.isfinite(se):
        return Paired(n, 0.0 if a.sum() == 0 else None, None, None, None, *p)
    if jointly_heavy_tailed(a[None], b[None])[0]:
        return Paired(n, ratio, None, None, se, *p)
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * se
    return Paired(n, ratio, math.exp(log_ratio - reach), math.exp(log_ratio + reach), se, *p)


def compare_rows(errors: FloatArray, reference: int) -> FloatArray:
    """Two-sided p-values of "as good as the reference row", one entry a row.

    Parameters
    ----------
    errors : (rows, n), NaN where a row lacks a replicate; each row is compared on the replicates
        that it shares with the reference.
    reference : index of the row to compare with; its own p-value is 1.
    """
    rows = len(errors)
    p = np.ones(rows)
    present = np.isfinite(errors)
    shared = present & present[reference]
    # Rows with the same replicates share one call, and so the same swaps.
    patterns: dict[bytes, list[int]] = {}
    for row in range(rows):
        if row != reference and shared[row].any():
            patterns.setdefault(shared[row].tobytes(), []).append(row)
    for members in patterns.values():
        use = shared[members[0]]
        a = np.square(errors[members][:, use])
        b = np.broadcast_to(np.square(errors[reference, use]), a.shape)
        test = swap_test(a, b)
        p[members] = np.minimum(1.0, 2 * np.minimum(test.p_greater, test.p_less))
    return p


def holm(p: FloatArray) -> FloatArray:
    """Holm's adjusted p-values: reject those at most alpha, family-wise error at most alpha.

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
