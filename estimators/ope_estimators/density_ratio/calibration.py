"""Calibration of log-odds on rows that the classifier has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ope_bench.arrays import FloatArray, IntArray

__all__ = ["Calibration", "calibrated", "calibrator"]

Calibration = Literal["none", "platt", "isotonic", "temperature"]
"""``platt``: a s + b; ``temperature``: a s; ``isotonic``: any non-decreasing map."""

Map = Callable[[FloatArray], FloatArray]


def calibrator(kind: Calibration, score: FloatArray, label: IntArray) -> Map:
    """The map from scores to log-odds that fits held-out ``score`` (k,), ``label`` (k,) best."""
    if kind == "none" or len(np.unique(label)) < 2:
        return lambda s: s
    if kind == "isotonic":
        return _isotonic(score, label)
    return _affine(score, label, with_intercept=kind == "platt")


def calibrated(
    kind: Calibration, score: FloatArray, label: IntArray, fold: IntArray
) -> FloatArray:
    """Out-of-fold scores, each fold calibrated on all the others: (k,).

    Parameters
    ----------
    score : (k,), log-odds of each row from a classifier that has not seen it.
    label : (k,), 0 or 1.
    fold : (k,), the row's fold.
    """
    if kind == "none":
        return score
    out = np.empty_like(score)
    for this in np.unique(fold):
        held = fold == this
        out[held] = calibrator(kind, score[~held], label[~held])(score[held])
    return out


def _affine(score: FloatArray, label: IntArray, *, with_intercept: bool) -> Map:
    """Logistic regression of the label on the score by Newton's method."""
    from scipy.special import expit

    # Separable scores have no finite slope; a faint pull towards the identity gives them one.
    faint = 1e-6 * len(score)
    design = np.stack([score, np.ones_like(score)], axis=1)[:, : 1 + with_intercept]
    start = np.array([1.0, 0.0])[: 1 + with_intercept]
    slope = start.copy()
    for _ in range(50):
        p = expit(design @ slope)
        gradient = design.T @ (p - label) + faint * (slope - start)
        curvature = (design * (p * (1 - p))[:, None]).T @ design + faint * np.eye(len(start))
        step = np.linalg.solve(curvature, gradient)
        # Newton's full step can overshoot where the fitted probabilities are near 0 and 1.
        slope -= step * min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        if np.abs(step).max() < 1e-8:
            break
    a, b = float(slope[0]), float(slope[1]) if with_intercept else 0.0
    return lambda s: a * s + b


def _isotonic(score: FloatArray, label: IntArray) -> Map:
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(score, kind="stable")
    fitted = isotonic_regression(label[order].astype(np.float64))
    _, block, size = np.unique(fitted, return_inverse=True, return_counts=True)
    ones = np.bincount(block, weights=label[order])
    # Half a row of each label a block: a block of one label only has no infinite odds.
    odds = np.log(ones + 0.5) - np.log(size - ones + 0.5)
    at, value = score[order], np.maximum.accumulate(odds)[block]
    return lambda s: np.interp(s, at, value)
