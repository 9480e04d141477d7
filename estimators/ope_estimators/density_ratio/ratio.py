"""The ratio of target to logging densities of (embedding, context), by classification."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ope_bench import Diagnostic, FloatArray, ParameterError, View
from ope_estimators.density_ratio.calibration import Calibration, calibrated
from ope_estimators.density_ratio.judgement import ratio_diagnostics
from ope_estimators.density_ratio.scores import ScoreModel

__all__ = ["LARGEST_LOG_RATIO", "Ratio", "RatioModel"]

LARGEST_LOG_RATIO = 300.0
"""Bound on log-weights without a clip, so that their squares do not overflow."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """An estimated log-ratio at every row of both samples.

    Parameters
    ----------
    logged : (n,), log of the weight of each logged row
    target : (m,), the same function at the target rows; None where it exists at logged rows alone
    diagnostics : accuracy of the classifier, on held-out rows if cross-fitted.
    """

    logged: FloatArray
    target: FloatArray | None
    diagnostics: dict[str, Diagnostic] = field(default_factory=dict)

    @property
    def weights(self) -> FloatArray:
        """Return the weights of logged rows, (n,); their mean is one if the ratio is correct."""
        return np.exp(self.logged)

    @property
    def target_weights(self) -> FloatArray | None:
        """(m,)."""
        return None if self.target is None else np.exp(self.target)


@dataclass(frozen=True)
class RatioModel:
    """w(g, c) = (n_0 / n_1) eta / (1 - eta), eta the probability that a row is a target row.

    The classifier's scores are calibrated and clipped; ratios that differ in calibration and clip
    alone share the classifier.

    Parameters
    ----------
    scores : the classifier's log-ratios.
    calibration : of the log-ratios, each fold on the others; needs folds.
    clip : the ratio is clipped to [1 / clip, clip]; None for no clip.

    Raises
    ------
    ParameterError : calibration without folds.

    References: Balanced Off-Policy Evaluation in General Action Spaces (Sondhi, Arbour and
    Dimmery, 2020); Permutation Weighting (Arbour, Dimmery and Sondhi, 2021); Off-Policy
    Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.2.
    """

    scores: ScoreModel
    calibration: Calibration
    clip: float | None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Ratio:
        """Fit the ratio at both samples' rows."""
        if self.calibration != "none" and self.scores.cross_fit < 2:
            msg = f"calibration = '{self.calibration}' needs cross_fit of at least 2 (or 'none')"
            raise ParameterError(msg)
        raw = view.fitted(self.scores)
        label = np.repeat([0, 1], [view.n, view.m])
        score = calibrated(self.calibration, raw.log_ratio, label, raw.fold)
        bound = LARGEST_LOG_RATIO if self.clip is None else math.log(self.clip)
        clipped = np.clip(score, -bound, bound)
        share = float((np.abs(score[: view.n]) > bound).mean())
        facts = {**raw.diagnostics, "clipped_share": share, **ratio_diagnostics(clipped, label)}
        return Ratio(clipped[: view.n], clipped[view.n :], facts)
