"""Rankings: within one environment with ties, and over many environments.

Own code for ranks and the critical difference, since scikit-posthocs and Orange depend on pandas
and plotting.
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
    from scipy.stats import rankdata

    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    if complete.shape[1] == 0:
        return np.full(len(scores), np.nan)
    return np.asarray(rankdata(complete, axis=0).mean(axis=1), dtype=np.float64)


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
    from scipy.stats import studentized_range

    if rows < 2 or settings < 1:
        return None
    q = float(studentized_range.ppf(1 - level, rows, np.inf)) / math.sqrt(2)
    return q * math.sqrt(rows * (rows + 1) / (6 * settings))


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
