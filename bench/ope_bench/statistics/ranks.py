"""Ranks within one environment with ties, and over many environments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.random import stream
from ope_bench.statistics.error_distribution import BOOTSTRAP_SEED

# Rankings: within one environment with ties, and over many environments.


def shared_ranks(scores: FloatArray) -> list[int | None]:
    """Return competition ranks, small scores first: equal scores share the smallest rank.

    Parameters
    ----------
    scores : (rows,); NaN has no rank.

    >>> shared_ranks(np.array([0.2, 0.1, 0.2, np.nan, 0.3]))
    [2, 1, 2, None, 4]
    """
    known = np.sort(scores[~np.isnan(scores)])
    return [
        None if math.isnan(score) else int(np.searchsorted(known, score)) + 1
        for score in map(float, scores)
    ]


def mean_ranks(scores: FloatArray) -> FloatArray:
    """Return the mean rank of each row over settings; ties share the mean of their ranks.

    Parameters
    ----------
    scores : (rows, settings), small is good; settings with a NaN are left out.

    Returns
    -------
    (rows,), NaN where no setting has all rows.

    >>> mean_ranks(np.array([[1.0, 1.0], [2.0, 1.0]])).tolist()
    [1.25, 1.75]
    """
    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    if complete.shape[1] == 0:
        return np.full(len(scores), np.nan)
    ranks = []
    for values in complete.T:
        ordered = np.sort(values)
        first, behind = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
        # Ranks from 1; equal values share the mean of theirs.
        ranks.append((first + behind + 1) / 2)
    return np.asarray(np.stack(ranks, axis=1).mean(axis=1), dtype=np.float64)


def critical_difference(rows: int, settings: int, level: float = 0.05) -> float | None:
    """Return Nemenyi's critical difference between two mean ranks.

    Formula: q sqrt(k (k + 1) / (6 N)) with q the upper quantile of the studentized range of k
    groups with infinitely many degrees of freedom, divided by sqrt(2).

    Parameters
    ----------
    rows : k, at least 2.
    settings : N.

    References
    ----------
    "Statistical comparisons of classifiers over multiple data sets" (Demsar, 2006), section 3.2.2.

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    if rows < 2 or settings < 1:
        return None
    if level == TABLE_LEVEL and rows - 2 < len(STUDENTIZED_RANGE):
        q = STUDENTIZED_RANGE[rows - 2]
    else:
        from scipy.stats import studentized_range

        q = float(studentized_range.ppf(1 - level, rows, np.inf))
    return q / math.sqrt(2) * math.sqrt(rows * (rows + 1) / (6 * settings))


TABLE_LEVEL = 0.05
STUDENTIZED_RANGE = tuple(
    map(
        float,
        """
2.771807648699355 3.314493155398122 3.6331595749026278 3.857655510378623 4.030092053180576
4.169554155006547 4.286309409349043 4.38650911549537 4.474124221725907 4.551863584065974
4.621655471868518 4.684919847313499 4.7427317076846975 4.795923860431186 4.845154183957343
4.890951125576789 4.933745358126922 4.973892348748306 5.0116887941184425 5.0473848150087655
5.081193155799909 5.1132962282719765 5.143851577247147 5.17299617312959 5.200849820280358
5.227517890554401 5.25309353580552 5.27765949383823 5.30128957403117 5.324049888290209
5.345999877836653 5.367193175047121 5.387678331063073 5.4074994334281214 5.426696633056341
5.445306596002232 5.463362892514628 5.480896333509614 5.4979352627407465 5.5145058114663055
5.530632121228646 5.546336539405832 5.561639791421669 5.576561132869737 5.591118484290078
5.605328550912587 5.619206929329286 5.63276820276599 5.646026026380527 5.65899320381105
5.6716817560264055 5.684102983386625 5.696267521699102 5.708185392951983 5.7198660513184985
5.731318424949656 5.742550954008434 5.753571625342619 5.764388004145548
""".split(),  # noqa: SIM905  sixty lines otherwise
    )
)
"""Upper 5 % quantiles of the range of 2, 3, ... standard normal variables, by SciPy, whose import
takes half a second."""


def performance_profile(scores: FloatArray, factors: FloatArray) -> FloatArray:
    """Return the share of settings in which a row is within a factor of the setting's best.

    Parameters
    ----------
    scores : (rows, settings), small is good, at least 0; NaN is never within any factor.
    factors : (k,), at least 1.

    Returns
    -------
    (rows, k)

    References
    ----------
    "Benchmarking optimization software with performance profiles" (Dolan and More, 2002).

    >>> performance_profile(np.array([[1.0, 4.0], [2.0, 2.0]]), np.array([1.0, 2.0])).tolist()
    [[0.5, 1.0], [0.5, 1.0]]
    """
    filled = np.where(np.isnan(scores), np.inf, scores)
    best = filled.min(axis=0)
    # In a setting without scores, no row is within a factor of the best.
    limit = np.where(np.isfinite(best), best, -1.0)
    return np.asarray(
        (filled[:, :, None] <= limit[None, :, None] * factors).mean(axis=1), dtype=np.float64
    )


def interquartile_mean(values: FloatArray) -> float | None:
    """Return the mean of the middle half; boundary values have fractional weight.

    References
    ----------
    "Deep reinforcement learning at the edge of the statistical precipice" (Agarwal, Schwarzer,
    Castro, Courville and Bellemare, 2021), section 4.3.

    >>> interquartile_mean(np.array([0.0, 1.0, 2.0, 100.0]))
    1.5
    """
    n = len(values)
    if n == 0:
        return None
    index = np.arange(n)
    # The part of each value's unit [i, i + 1) that lies in [n / 4, 3 n / 4).
    inside = np.clip(np.minimum(index + 1, 0.75 * n) - np.maximum(index, 0.25 * n), 0.0, 1.0)
    return float(np.sort(values) @ (inside / (n / 2)))


# Quality of policy selection: choosing among target policies by their estimated values.


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Measures of one ranking of candidate policies; None where undefined.

    Parameters
    ----------
    spearman, kendall : rank correlation of estimates and values.
    regret : value of the best policy minus the value of the one with the best estimate.
    relative_regret : ``regret`` over the range of the values.
    type_one : share of the policies no better than the reference that would be adopted.
    type_two : share of the policies better than the reference that would be rejected.
    """

    spearman: float | None
    kendall: float | None
    regret: float | None
    relative_regret: float | None
    type_one: float | None
    type_two: float | None


def selection(
    estimate: FloatArray, value: FloatArray, *, reference: float | None = None
) -> Selection:
    """Measure the selection of policies by their estimated values.

    A policy is adopted if its estimate exceeds ``reference``. Among estimates that tie for the
    best, the mean of the policies' values counts, the expectation of a uniform draw.

    Parameters
    ----------
    estimate, value : (policies,); policies whose estimate is NaN cannot be chosen, and are
        left out of the correlations.
    reference : value of the policy in use, the logging policy.

    References
    ----------
    "Towards assessing and benchmarking risk-return tradeoff of off-policy evaluation" (Kiyohara,
    Kishimoto, Kawakami, Kobayashi, Nakata and Saito, 2024), section 2.2.

    >>> chosen = selection(np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]), reference=1.5)
    >>> chosen.spearman, chosen.regret, chosen.type_one, chosen.type_two
    (0.5, 1.0, 0.0, 0.0)
    """
    known = np.isfinite(estimate)
    regret = relative = one = two = None
    if known.any():
        best = estimate[known] == estimate[known].max()
        regret = float(value.max() - value[known][best].mean())
        spread = float(value.max() - value.min())
        relative = regret / spread if spread > 0 else None
    if reference is not None and known.any():
        better = value > reference
        adopted = known & (np.where(known, estimate, -np.inf) > reference)
        one = float(adopted[~better].mean()) if (~better).any() else None
        two = float((~adopted)[better].mean()) if better.any() else None
    spearman = kendall = None
    estimate, value = estimate[known], value[known]
    # Rank correlations of constant rows are undefined.
    if len(estimate) >= 2 and np.ptp(estimate) and np.ptp(value):
        from scipy.stats import kendalltau, spearmanr

        # SciPy's last digit depends on its version.
        spearman = round(float(spearmanr(estimate, value).statistic), 15)
        kendall = round(float(kendalltau(estimate, value).statistic), 15)
    return Selection(
        spearman=spearman,
        kendall=kendall,
        regret=regret,
        relative_regret=relative,
        type_one=one,
        type_two=two,
    )


# Means over sources, with intervals, and the ranks that they leave open.


def mean_interval(figures: FloatArray) -> tuple[float, float, float]:
    """Return a mean with its 95 % interval by Student's t: infinite for one figure.

    >>> mean_interval(np.array([1.0]))
    (1.0, -inf, inf)
    """
    from scipy.special import stdtrit

    mean = float(figures.mean())
    if len(figures) < 2:
        return mean, -np.inf, np.inf
    half = float(stdtrit(len(figures) - 1, 0.975) * figures.std(ddof=1) / np.sqrt(len(figures)))
    return mean, mean - half, mean + half


RESAMPLES, AT_ONCE = 10_000, 1_000


def rank_ranges(*strata: FloatArray, level: float = 0.05) -> list[tuple[int, int]]:
    """Return the ranks that each row may have, small means first, all at once with 95 %.

    The mean of a row is that of the strata, with equal weights. A row is behind another where
    their mean difference exceeds its standard error by more than the upper quantile of the largest
    studentized difference of a bootstrap over the columns of each stratum. Each resample has
    errors of its own: with those of the data, rows whose difference lies in few columns are put in
    an order that is not there. Two rows whose difference is the same in all columns of more than a
    share ``level`` of the resamples have no order, and do not widen the ranges of others.

    Assumptions: columns are drawn independently of one another.
    Fails when a few columns carry the mean difference of any two rows: the quantile is large, and
    rows that are far apart have no order either.

    Parameters
    ----------
    strata : (rows, n) each, figures of independent sources.
    level : probability with which some shown order may be wrong.

    References
    ----------
    "Inference for ranks with applications to mobility across neighbourhoods and academic
    achievement across countries" (Mogstad, Romano, Shaikh and Wilhelm, 2024).

    >>> rank_ranges(np.array([[1.0, 1.2, 0.9, 1.1, 1.3, 0.8], [5.0, 5.3, 4.8, 5.4, 5.1, 4.7]]))
    [(1, 1), (2, 2)]
    """
    rows = len(strata[0])
    if rows < 2 or min(part.shape[1] for part in strata) < 2:
        return [(1, rows)] * rows
    one, other = np.triu_indices(rows, 1)
    differences = [part[one] - part[other] for part in strata]
    gap = np.mean([part.mean(axis=1) for part in differences], axis=0)
    squares = [part.var(axis=1, ddof=1) / part.shape[1] for part in differences]
    error = np.sqrt(np.sum(squares, axis=0)) / len(strata)
    # Rows that never differ have no studentized difference.
    known = error > 1e-12
    centered = [(part - part.mean(axis=1, keepdims=True))[known] for part in differences]
    draws = stream("ranks", BOOTSTRAP_SEED)
    lacking = np.isinf(_studentized(centered, draws)).mean(axis=0) > level
    kept = [part[~lacking] for part in centered]
    sizes = (_studentized(kept, draws) for _ in range(RESAMPLES // AT_ONCE))
    largest = np.concatenate([size.max(axis=1, initial=0.0) for size in sizes])
    limit = np.full(len(gap), 1e-12)
    quantile = np.quantile(largest, 1 - level, method="higher")
    limit[known] = error[known] * np.where(lacking, np.inf, quantile)
    behind = np.zeros((rows, rows), np.bool_)
    behind[one, other], behind[other, one] = gap > limit, -gap > limit
    first, last = 1 + behind.sum(axis=1), rows - behind.sum(axis=0)
    return [(int(low), int(high)) for low, high in zip(first, last, strict=True)]


def _studentized(strata: Sequence[FloatArray], draws: np.random.Generator) -> FloatArray:
    """Return means over their errors, both of resamples of the columns: (AT_ONCE, pairs).

    Infinite where all columns of each stratum of a resample are alike.

    Parameters
    ----------
    strata : (pairs, n) each, differences of two rows less their mean.
    draws : the generator of the resamples.
    """
    mean = squared = np.zeros((AT_ONCE, len(strata[0])))
    for centered in strata:
        n = centered.shape[1]
        shares = draws.multinomial(n, np.full(n, 1 / n), AT_ONCE) / n
        own, square = shares @ centered.T, shares @ (centered**2).T
        variance = square - own**2
        # What is left of a square is rounding: all columns are alike.
        squared = squared + np.where(variance > 1e-12 * square, variance, 0.0) / (n - 1)
        mean = mean + own
    mean, error = np.abs(mean), np.sqrt(squared)
    alike = np.where(mean > 1e-12, np.inf, 0.0)
    size: FloatArray = np.divide(mean, error, out=alike, where=error > 0)
    return size
