"""Diagnostics of an estimated ratio, from the two samples alone."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import Diagnostic, FloatArray, IntArray

__all__ = ["expected_calibration_error", "ratio_diagnostics"]


def ratio_diagnostics(log_ratio: FloatArray, label: IntArray) -> dict[str, Diagnostic]:
    """Compute log-loss, AUC, calibration error, and the mean weight of the logged rows.

    The classes have equal weight, so that a log-loss of log 2 means "no better than chance".

    Parameters
    ----------
    log_ratio : (k,), at held-out rows, if cross-fitted
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
        "auc": _area_under_curve(log_ratio, label),
        "ece": expected_calibration_error(log_ratio, label),
        "mean_weight": mean,
        "mean_weight_z": (mean - 1.0) / spread if spread > 0 else None,
    }


def _area_under_curve(log_ratio: FloatArray, label: IntArray) -> float | None:
    """Return None for NaN ratios, which scikit-learn refuses."""
    if np.isnan(log_ratio).any():
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(label, log_ratio))


def expected_calibration_error(log_ratio: FloatArray, label: IntArray, bins: int = 10) -> float:
    """Return the mean distance of predicted from observed frequency over equally large bins.

    Predictions are for the sizes of the two samples; equal ones share a bin.
    """
    n1 = int(label.sum())
    prior = math.log(n1 / (len(label) - n1))
    with np.errstate(over="ignore"):
        eta = 1.0 / (1.0 + np.exp(-(log_ratio + prior)))
    edges = np.quantile(eta, np.arange(1, bins) / bins)
    bin_index = np.searchsorted(edges, eta, side="left")
    gaps = np.bincount(bin_index, weights=eta - label)
    return float(np.abs(gaps).sum()) / len(label)
