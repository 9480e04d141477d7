"""Calibration of log-odds on held-out rows.

scikit-learn's `CalibratedClassifierCV` calibrates classifiers, not scores: it would fit again the
classifiers that are fitted for every fold already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["Calibration", "calibrated", "calibrator"]

Calibration = Literal["none", "platt", "isotonic", "temperature"]
"""``platt``: a s + b; ``temperature``: a s; ``isotonic``: any non-decreasing map."""

SURE = 50.0
"""Bound on log-odds; unanimous votes of trees give infinite ones."""

Map = Callable[[FloatArray], FloatArray]


def calibrator(
    kind: Calibration, score: FloatArray, label: IntArray, *, prior: float = 0.0
) -> Map:
    """Fit a map from log-ratios to calibrated log-ratios on held-out rows.

    Parameters
    ----------
    score : (k,), log-ratios: log-odds less those of the classes.
    label : (k,), 0 or 1.
    prior : log-odds of the classes, which the labels contain and log-ratios do not.
    """
    if kind == "none" or len(np.unique(label)) < 2:
        return lambda s: s
    score = np.clip(score, -SURE, SURE)
    if kind == "isotonic":
        fitted = _isotonic(score, label)
        return lambda s: fitted(np.clip(s, -SURE, SURE)) - prior
    a, b = _affine(score, label, prior, with_intercept=kind == "platt")
    return lambda s: a * np.clip(s, -SURE, SURE) + b


def calibrated(
    kind: Calibration, score: FloatArray, label: IntArray, fold: IntArray
) -> FloatArray:
    """Calibrate out-of-fold scores, each fold on all others: (k,).

    Parameters
    ----------
    score : (k,), log-odds of each row from a classifier that was fitted without it.
    label : (k,), 0 or 1.
    fold : (k,), the row's fold.
    """
    if kind == "none":
        return score
    out = np.empty_like(score)
    for in_fold in np.unique(fold):
        held = fold == in_fold
        ones, others = int(label[~held].sum()), int((1 - label[~held]).sum())
        # 0 if the samples have equal size.
        prior = math.log(ones / others) if ones and others else 0.0
        out[held] = calibrator(kind, score[~held], label[~held], prior=prior)(score[held])
    return out


def _affine(
    score: FloatArray, label: IntArray, prior: float, *, with_intercept: bool
) -> tuple[float, float]:
    """Fit a logistic regression of label on score, offset ``prior``, by damped Newton steps."""
    from scipy.special import expit

    # Separable scores have no finite slope; a small penalty toward the identity gives them one.
    faint = 1e-6 * len(score)
    design = np.stack([score, np.ones_like(score)], axis=1)[:, : 1 + with_intercept]
    start = np.array([1.0, 0.0])[: 1 + with_intercept]
    sign = 1.0 - 2.0 * label

    def loss(slope: FloatArray) -> float:
        fit = np.logaddexp(0.0, sign * (design @ slope + prior)).sum()
        return float(fit + faint / 2 * np.square(slope - start).sum())

    slope, now = start.copy(), loss(start)
    for _ in range(200):
        p = expit(design @ slope + prior)
        gradient = design.T @ (p - label) + faint * (slope - start)
        curvature = (design * (p * (1 - p))[:, None]).T @ design + faint * np.eye(len(start))
        step = np.linalg.solve(curvature, gradient)
        # Newton's full step can overshoot where the fitted probabilities are near 0 and 1.
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        # Differences within rounding are no overshoot.
        slack = 1e-12 * abs(now)
        while (after := loss(slope - step)) > now + slack and np.abs(step).max() >= 1e-8:
            step /= 2
        slope, now = slope - step, after
        if np.abs(step).max() < 1e-8:
            break
    return float(slope[0]), float(slope[1]) if with_intercept else 0.0


def _isotonic(score: FloatArray, label: IntArray) -> Map:
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(score, kind="stable")
    fitted = isotonic_regression(label[order].astype(np.float64))
    _, block, size = np.unique(fitted, return_inverse=True, return_counts=True)
    ones = np.bincount(block, weights=label[order])
    # Half a row of each label per block, so that a block with one label has finite odds.
    odds = np.log(ones + 0.5) - np.log(size - ones + 0.5)
    at, value = score[order], np.maximum.accumulate(odds)[block]
    return lambda s: np.interp(s, at, value)
