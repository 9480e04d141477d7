"""The ratio of target to logging densities of (embedding, context), by classification."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.data import Diagnostic
from ope_bench.errors import ParameterError
from ope_bench.view import View
from ope_estimators.density_ratio.calibration import Calibration, calibrated
from ope_estimators.density_ratio.judgement import judged
from ope_estimators.density_ratio.scores import ScoreModel

__all__ = ["LARGEST_LOG_RATIO", "Ratio", "RatioModel"]

LARGEST_LOG_RATIO = 300.0
"""Without a clip: beyond it, squares of weights would leave the range of floating point."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """An estimated log-ratio at every row of both samples.

    Parameters
    ----------
    logged : (n,), log of the weight of each logged row
    target : (m,), the same function at the target rows
    diagnostics : how well the classifier does, on rows it has not seen if cross-fitted.
    """

    logged: FloatArray
    target: FloatArray
    diagnostics: dict[str, Diagnostic] = field(default_factory=dict)

    @property
    def weights(self) -> FloatArray:
        """(n,), one on average where the ratio is right."""
        return np.exp(self.logged)

    @property
    def target_weights(self) -> FloatArray:
        """(m,)."""
        return np.exp(self.target)


@dataclass(frozen=True)
class RatioModel:
    """w(g, c) = (n_0 / n_1) eta / (1 - eta), eta the probability that a row is a target row.

    The classifier's scores, calibrated and held within bounds; ratios that differ in calibration
    and clip alone share the classifier.

    Parameters
    ----------
    scores : the classifier's log-ratios.
    calibration : of the log-ratios, each fold's on the others; needs folds.
    clip : the ratio is held within [1 / clip, clip]; None for none.

    Raises
    ------
    ParameterError : calibration without folds.

    References: Balanced Off-Policy Evaluation in General Action Spaces (Sondhi, Arbour and
    Dimmery, 2020); Permutation Weighting (Arbour, Dimmery and Sondhi, 2021); Off-Policy
    Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 4.2.
    """

    scores: ScoreModel
    calibration: Calibration
    clip: float | None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Ratio:
        """The ratio at both samples' rows."""
        if self.calibration != "none" and self.scores.cross_fit < 2:
            msg = f"calibration = '{self.calibration}' needs cross_fit of at least 2 (or 'none')"
            raise ParameterError(msg)
        raw = view.fitted(self.scores)
        label = np.repeat([0, 1], [view.n, view.m])
        score = calibrated(self.calibration, raw.log_ratio, label, raw.fold)
        bound = LARGEST_LOG_RATIO if self.clip is None else math.log(self.clip)
        clipped = np.clip(score, -bound, bound)
        share = float((np.abs(score[: view.n]) > bound).mean())
        facts = {**raw.diagnostics, "clipped_share": share, **judged(clipped, label)}
        return Ratio(clipped[: view.n], clipped[view.n :], facts)
