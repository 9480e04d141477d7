"""Shares with their uncertainty, and how honest an estimator's own intervals are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ope_bench.arrays import FloatArray

__all__ = ["Coverage", "Share", "interval_coverage", "wilson"]


@dataclass(frozen=True)
class Share:
    """A share of trials with its interval; all None where there was no trial.

    Parameters
    ----------
    count, total : of which the share is taken.
    """

    count: int
    total: int
    value: float | None
    low: float | None
    high: float | None


def wilson(count: int, total: int, *, level: float = 0.95) -> Share:
    """A share with Wilson's score interval.

    Formula: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    References
    ----------
    "Probable inference, the law of succession, and statistical inference" (Wilson, 1927).

    >>> share = wilson(0, 20)
    >>> share.value, share.low, round(share.high, 4)
    (0.0, 0.0, 0.1611)
    """
    from scipy.special import ndtri

    if total == 0:
        return Share(0, 0, None, None, None)
    z = float(ndtri((1 + level) / 2))
    p = count / total
    centre = p + z * z / (2 * total)
    reach = z * math.sqrt(p * (1 - p) / total + (z / (2 * total)) ** 2)
    scale = 1 + z * z / total
    low = 0.0 if count == 0 else (centre - reach) / scale
    high = 1.0 if count == total else (centre + reach) / scale
    return Share(count, total, p, low, high)


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth, and how wide they were.

    Parameters
    ----------
    share : of the intervals that held it.
    width : mean width; None where there were no intervals.
    """

    share: Share
    width: float | None


def interval_coverage(
    estimate: FloatArray, standard_error: FloatArray, truth: FloatArray, *, level: float = 0.95
) -> Coverage:
    """Coverage and mean width of the normal intervals ``estimate +- z standard_error``.

    Parameters
    ----------
    estimate, standard_error, truth : (n,); rows where one is NaN are left out.
    level : that the intervals claim.
    """
    from scipy.special import ndtri

    usable = np.isfinite(estimate) & np.isfinite(standard_error) & np.isfinite(truth)
    total = int(usable.sum())
    if total == 0:
        return Coverage(wilson(0, 0), None)
    reach = float(ndtri((1 + level) / 2)) * standard_error[usable]
    held = int((np.abs(estimate[usable] - truth[usable]) <= reach).sum())
    return Coverage(wilson(held, total), float(2 * reach.mean()))
