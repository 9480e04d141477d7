"""The ratio of target to logging densities of (embedding, context), by classification."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Diagnostic
from ope_bench.errors import ParameterError
from ope_bench.view import View
from ope_estimators.density_ratio.calibration import Calibration, calibrated
from ope_estimators.density_ratio.capacity import default_params
from ope_estimators.density_ratio.composition import Composition, compose
from ope_estimators.density_ratio.judgement import judged
from ope_estimators.density_ratio.log_odds import log_odds
from ope_estimators.flows.flow import FlowModel
from ope_estimators.nuisance.folds import folds
from ope_estimators.nuisance.learners import classifier

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

    The classifier's prior odds n_1 / n_0 are taken out, so that samples of different sizes give
    the same ratio. Log-odds come from the classifier's margin, not from a rounded probability.

    Parameters
    ----------
    composition : how embedding and context become features.
    classifier : name of a classifier, or an import path.
    classifier_params : its parameters beyond `default_params`, as sorted pairs.
    cross_fit : folds, by row; every row is then scored by a classifier that has not seen it. Up
        to 1, one classifier scores the rows it was fitted on.
    calibration : of the log-odds, each fold's on the others; needs folds.
    clip : the ratio is held within [1 / clip, clip]; None for none.
    flow : a normalizing flow to be applied to the features first.

    Raises
    ------
    ParameterError : calibration without folds.

    References: Balanced Off-Policy Evaluation in General Action Spaces (Sondhi, Arbour and
    Dimmery, 2020); Permutation Weighting (Arbour, Dimmery and Sondhi, 2021); Off-Policy
    Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 4.2.
    """

    composition: Composition
    classifier: str
    classifier_params: tuple[tuple[str, Any], ...]
    cross_fit: int
    calibration: Calibration
    clip: float | None
    flow: FlowModel | None = None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Ratio:
        """The ratio at both samples' rows."""
        if self.calibration != "none" and self.cross_fit < 2:
            msg = f"calibration = '{self.calibration}' needs cross_fit of at least 2 (or 'none')"
            raise ParameterError(msg)
        facts: dict[str, Diagnostic] = {}
        if self.flow is None:
            features = compose(view, self.composition).pooled
        else:
            flow = view.fitted(self.flow)
            features = flow.pooled
            facts |= flow.diagnostics
        label = np.repeat([0, 1], [view.n, view.m])
        fold = np.zeros(view.n + view.m, dtype=np.int64)
        if self.cross_fit >= 2:
            fold = np.concatenate(folds(view, self.cross_fit, rng))
        seed = int(rng.integers(2**31))
        score = self._scores(features, label, fold, seed, device)
        score = calibrated(self.calibration, score, label, fold)
        bound = LARGEST_LOG_RATIO if self.clip is None else math.log(self.clip)
        clipped = np.clip(score, -bound, bound)
        facts["clipped_share"] = float((np.abs(score[: view.n]) > bound).mean())
        facts |= judged(clipped, label)
        return Ratio(clipped[: view.n], clipped[view.n :], facts)

    def _scores(
        self, features: FloatArray, label: IntArray, fold: IntArray, seed: int, device: str
    ) -> FloatArray:
        """Log-ratios, each row's from the classifier of its fold: (n + m,)."""
        score = np.empty(len(label))
        # Sizes are for all rows, so that every fold has the same.
        params = {**default_params(self.classifier, len(label)), **dict(self.classifier_params)}
        for this in np.unique(fold):
            held = fold == this
            train = ~held if self.cross_fit >= 2 else held
            if len(np.unique(label[train])) < 2:
                # Too few rows to tell anything: the two samples count as alike.
                score[held] = 0.0
                continue
            model = classifier(self.classifier, seed=seed, device=device, params=params)
            model.fit(features[train], label[train])
            n1 = int(label[train].sum())
            prior = math.log(n1 / (int(train.sum()) - n1))
            score[held] = log_odds(model, features[held]) - prior
        return score
