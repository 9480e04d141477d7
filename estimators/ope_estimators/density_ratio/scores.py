"""Raw log-ratios: the log-odds of a classifier that tells target from logged rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Diagnostic
from ope_bench.view import View
from ope_estimators.density_ratio.capacity import default_params
from ope_estimators.density_ratio.composition import Composition, compose
from ope_estimators.density_ratio.log_odds import log_odds
from ope_estimators.flows.flow import FlowModel
from ope_estimators.nuisance.folds import folds
from ope_estimators.nuisance.learners import classifier

__all__ = ["ScoreModel", "Scores"]


@dataclass(frozen=True, eq=False)
class Scores:
    """Log-ratios as the classifier gives them.

    Parameters
    ----------
    log_ratio : (n + m,), logged rows first
    fold : (n + m,), the fold of each row; all zero in-sample
    diagnostics : of the flow, where there is one.
    """

    log_ratio: FloatArray
    fold: IntArray
    diagnostics: dict[str, Diagnostic]


@dataclass(frozen=True)
class ScoreModel:
    """log eta(x) - log(1 - eta(x)) - log(n_1 / n_0) at every row of both samples.

    The classifier's prior odds n_1 / n_0 are taken out, so that samples of different sizes give
    the same ratio. Log-odds come from the classifier's margin, not from a rounded probability.

    Parameters
    ----------
    composition : how embedding and context become features.
    classifier : name of a classifier, or an import path.
    classifier_params : its parameters beyond `default_params`, as sorted pairs.
    cross_fit : folds, by row; every row is then scored by a classifier that has not seen it. Up
        to 1, one classifier scores the rows it was fitted on.
    flow : a normalizing flow to be applied to the features first.
    """

    composition: Composition
    classifier: str
    classifier_params: tuple[tuple[str, Any], ...]
    cross_fit: int
    flow: FlowModel | None = None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Scores:
        """The scores at both samples' rows."""
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
        return Scores(self._scores(features, label, fold, seed, device), fold, facts)

    def _scores(
        self, features: FloatArray, label: IntArray, fold: IntArray, seed: int, device: str
    ) -> FloatArray:
        """Each row's log-ratio by the classifier of its fold: (n + m,)."""
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
