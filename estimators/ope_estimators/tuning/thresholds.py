"""Thresholds of importance weights among which rules choose."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ope_bench import FloatArray

__all__ = ["THRESHOLDS", "exceeds", "threshold_grid"]

THRESHOLDS = 30


def exceeds(weight: FloatArray, threshold: float | FloatArray) -> npt.NDArray[np.bool_]:
    """Return whether weights are above a threshold by more than rounding.

    The weight of one action is computed from propensities and from policies: a threshold equal
    to it must not find it above one way and not above the other.
    """
    above: npt.NDArray[np.bool_] = weight > np.multiply(threshold, 1.0 + 1e-9)
    return above


def threshold_grid(weight: FloatArray) -> FloatArray:
    """Return values from the 95 % down to the 5 % quantile of the positive weights: (THRESHOLDS,).

    They are in geometric progression, the one with the least bias first. One value where all
    positive weights are alike, or there is none.

    >>> threshold_grid(np.array([0.0, 2.0, 2.0])).tolist()
    [2.0]
    """
    positive = weight[weight > 0]
    if not len(positive):
        return np.array([1.0])
    low, high = (float(value) for value in np.quantile(positive, [0.05, 0.95]))
    return np.geomspace(high, low, THRESHOLDS) if low < high else np.array([high])
