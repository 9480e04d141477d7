"""Rankings: within one environment with ties, and over many environments.

Own code for ranks and the critical difference, since scikit-posthocs and Orange depend on pandas
and plotting, and SciPy's statistics take half a second to import.
"""

from __future__ import annotations

import math

import numpy as np

from ope_bench.contracts.arrays import FloatArray

__all__ = [
    "critical_difference",
    "interquartile_mean",
    "mean_ranks",
    "performance_profile",
    "shared_ranks",
]


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
    ranks = np.stack([_ranks(column) for column in complete.T], axis=1)
    return np.asarray(ranks.mean(axis=1), dtype=np.float64)


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 1; equal values share the mean of theirs."""
    ordered = np.sort(values)
    first, behind = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.asarray((first + behind + 1) / 2, dtype=np.float64)


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
    known = level == TABLE_LEVEL and rows - 2 < len(STUDENTIZED_RANGE)
    q = STUDENTIZED_RANGE[rows - 2] if known else _studentized_range(rows, level)
    return q / math.sqrt(2) * math.sqrt(rows * (rows + 1) / (6 * settings))


def _studentized_range(groups: int, level: float) -> float:
    """Return the upper quantile of the range of so many standard normal variables."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - level, groups, np.inf))


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
    return float(np.sort(values) @ _middle_half(n))


def _middle_half(n: int) -> FloatArray:
    index = np.arange(n)
    inside = np.clip(np.minimum(index + 1, 0.75 * n) - np.maximum(index, 0.25 * n), 0.0, 1.0)
    return np.asarray(inside / (n / 2), dtype=np.float64)
