"""How good an estimated ratio looks from the two samples alone."""

from __future__ import annotations

import math

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Diagnostic

__all__ = ["area_under_curve", "expected_calibration_error", "judged"]


def judged(log_ratio: FloatArray, label: IntArray) -> dict[str, Diagnostic]:
    """Log-loss, AUC, calibration error, and whether the logged rows' weights average to one.

    The classes count equally, whatever their sizes, so that log 2 stands for "told nothing".

    Parameters
    ----------
    log_ratio : (k,), at rows that the classifier has not seen, if cross-fitted
    label : (k,), 0 for logged and 1 for target rows
    """
    logged, target = log_ratio[label == 0], log_ratio[label == 1]
    weight = np.exp(logged)
    spread = float(weight.std()) / math.sqrt(len(weight))
    mean = float(weight.mean())
    return {
        "log_loss": float(
            0.5 * np.logaddexp(0.0, logged).mean() + 0.5 * np.logaddexp(0.0, -target).mean()
        ),
        "auc": area_under_curve(logged, target),
        "ece": expected_calibration_error(log_ratio, label),
        "mean_weight": mean,
        "mean_weight_z": (mean - 1.0) / spread if spread > 0 else None,
    }


def area_under_curve(negative: FloatArray, positive: FloatArray) -> float:
    """P(positive > negative) + P(equal) / 2, by ranks.

    >>> area_under_curve(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.875
    """
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left")
    up_to = np.searchsorted(ordered, positive, side="right")
    return float((below + up_to).mean() / (2 * len(negative)))


def expected_calibration_error(log_ratio: FloatArray, label: IntArray, bins: int = 10) -> float:
    """Mean distance of predicted from observed frequency over bins of about equally many rows.

    Predictions are for the two samples' own sizes; equal ones share a bin.
    """
    n1 = int(label.sum())
    prior = math.log(n1 / (len(label) - n1))
    with np.errstate(over="ignore"):
        eta = 1.0 / (1.0 + np.exp(-(log_ratio + prior)))
    edges = np.quantile(eta, np.arange(1, bins) / bins)
    home = np.searchsorted(edges, eta, side="left")
    gaps = np.bincount(home, weights=eta - label)
    return float(np.abs(gaps).sum()) / len(label)
