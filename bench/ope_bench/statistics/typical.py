"""Paired comparison of typical errors: signed ranks of absolute errors.

The mean square of a heavy-tailed estimator depends on its few worst data sets; its rank on most
data sets does not. Therefore a comparison of two estimators needs both questions: which has the
larger mean square (`ope_bench.statistics.paired`), and which is closer to the true value on most
data sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench.contracts.arrays import FloatArray

__all__ = ["Typical", "rank_sums", "signed_ranks", "typical"]


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
    from scipy.stats import wilcoxon

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
        # SciPy renamed "approx" to "asymptotic"; it knows both.
        greater[rows], less[rows] = (
            wilcoxon(moved, axis=1, alternative=side, method="approx").pvalue for side in _SIDES
        )
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


_SIDES: tuple[Literal["greater"], Literal["less"]] = ("greater", "less")


def rank_sums(
    after: FloatArray, before: FloatArray, *, null_ratio: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Compare |after| with ``null_ratio`` times |before| by a rank-sum test, on different data.

    Formula: the rank sum of |after_i| / null_ratio among all absolute errors of both sides.

    Assumptions: all errors are independent; under the null both sides have the same
    distribution of absolute errors up to null_ratio.
    Fails when: the two distributions differ in shape and the question is about means.

    Parameters
    ----------
    after : (rows, n1), errors; their sign does not matter.
    before : (rows, n0), errors of other replicates.
    null_ratio : ratio of absolute errors under the null.

    Returns
    -------
    One-sided p-values (rows,) of "after is larger" and of "after is smaller".

    References
    ----------
    "On a test of whether one of two random variables is stochastically larger than the other"
    (Mann and Whitney, 1947).

    >>> errors = np.linspace(0.1, 2.0, 20)[None]
    >>> greater, less = rank_sums(3.0 * errors, errors)
    >>> bool(greater[0] < 1e-3), bool(less[0] > 0.99)
    (True, True)
    """
    from scipy.stats import mannwhitneyu

    a, b = np.atleast_2d(np.abs(after) / null_ratio), np.atleast_2d(np.abs(before))
    greater, less = (mannwhitneyu(a, b, alternative=side, axis=1).pvalue for side in _SIDES)
    # Without any difference between ranks the statistic has no spread.
    return np.nan_to_num(greater, nan=1.0), np.nan_to_num(less, nan=1.0)


@dataclass(frozen=True)
class Typical:
    """One comparison of typical errors; None where undefined.

    Parameters
    ----------
    n : number of pairs.
    closer : share of the data sets on which ``after`` is closer; equal errors count half.
    ratio : median absolute error after over before.
    p_greater, p_less : one-sided p-values of "after is larger (smaller)".
    """

    n: int
    closer: float | None
    ratio: float | None
    p_greater: float
    p_less: float


def typical(after: FloatArray, before: FloatArray) -> Typical:
    """Compare two estimators' typical errors on the same replicates.

    Parameters
    ----------
    after, before : (n,), errors.
    """
    n = len(after)
    if n == 0:
        return Typical(0, None, None, 1.0, 1.0)
    greater, less = signed_ranks(after[None], before[None])
    sign = np.sign(np.abs(before) - np.abs(after))
    medians = [float(np.median(np.abs(side))) for side in (after, before)]
    ratio = medians[0] / medians[1] if medians[1] > 0 else None
    return Typical(n, float((1 + sign).mean() / 2), ratio, float(greater[0]), float(less[0]))
