"""Raw log-ratios: the log-odds of a classifier between target and logged rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_bench import Diagnostic, FloatArray, IntArray, OpeBenchError, View
from ope_estimators.density_ratio.capacity import default_params
from ope_estimators.density_ratio.log_odds import log_odds
from ope_estimators.features.composition import Composition, compose
from ope_estimators.flows.flow import FlowModel
from ope_estimators.learning.batched_descent import train_batched
from ope_estimators.learning.folds import folds
from ope_estimators.learning.learners import classifier, fitted

__all__ = ["ScoreModel", "RatioScores"]


@dataclass(frozen=True, eq=False)
class RatioScores:
    """Uncalibrated log-ratios of a classifier.

    Parameters
    ----------
    log_ratio : (n + m,), logged rows first
    fold : (n + m,), the fold of each row; all zero in-sample
    diagnostics : those of the flow, if there is one.
    """

    log_ratio: FloatArray
    fold: IntArray
    diagnostics: dict[str, Diagnostic]


@dataclass(frozen=True)
class ScoreModel:
    """log eta(x) - log(1 - eta(x)) - log(n_1 / n_0) at every row of both samples.

    The classifier's prior odds n_1 / n_0 are divided out, so that the ratio does not depend on the
    sizes of the samples. Log-odds come from the classifier's margin, not from a rounded
    probability.

    Parameters
    ----------
    composition : how embedding and context become features.
    classifier : name of a classifier, or an import path.
    classifier_params : its parameters beyond `default_params`, as sorted pairs.
    cross_fit : number of folds by unit; every row is scored by a classifier that was fitted
        without it. Up to 1, one classifier scores the rows that it was fitted on.
    flow : a normalizing flow that transforms the features first.
    """

    composition: Composition
    classifier: str
    classifier_params: tuple[tuple[str, Any], ...]
    cross_fit: int
    flow: FlowModel | None = None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> RatioScores:
        """Fit the scores at both samples' rows."""
        prepared = self.begin(view, rng=rng, device=device)
        for part in prepared.parts(self.cross_fit):
            model = self._classifier(prepared, device)
            fitted(model, *prepared.training(part))
            prepared.score(part, model)
        return prepared.scores

    def begin(self, view: View, *, rng: np.random.Generator, device: str) -> PreparedScores:
        """Prepare features, folds and seed."""
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
        unit = None
        if view.has_units:
            unit = np.concatenate([view.fold_unit, view.target_fold_unit])
        # Without a classifier, the log-ratio is zero.
        scores = RatioScores(np.zeros(len(label)), fold, facts)
        return PreparedScores(features, label, unit, seed, scores)

    def complete(
        self, prepared: Sequence[PreparedScores], *, device: str
    ) -> list[RatioScores | OpeBenchError]:
        """Fit the scores of many replicates, with all their networks trained together."""
        from ope_estimators.learning.mlp import row_log_loss

        work = [
            (number, part, self._classifier(one, device))
            for number, one in enumerate(prepared)
            for part in one.parts(self.cross_fit)
        ]
        trainings = [model.begin(*prepared[number].training(part)) for number, part, model in work]
        outcome: list[RatioScores | OpeBenchError] = [one.scores for one in prepared]
        descents = train_batched(trainings, row_log_loss)
        for (number, part, model), descent in zip(work, descents, strict=True):
            if isinstance(descent, OpeBenchError):
                outcome[number] = descent
            else:
                prepared[number].score(part, model)
        return outcome

    def _classifier(self, prepared: PreparedScores, device: str) -> Any:
        # Sizes depend on the number of all rows, so that all folds have the same.
        defaults = default_params(self.classifier, len(prepared.label))
        params = {**defaults, **dict(self.classifier_params)}
        return classifier(self.classifier, seed=prepared.seed, device=device, params=params)


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """The rows that one classifier scores, and the rows that it is fitted on."""

    held: npt.NDArray[np.bool_]
    train: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PreparedScores:
    """Data of the classifiers, and the scores of finished ones.

    Parameters
    ----------
    features : (n + m, d)
    label : (n + m,), 0 for logged rows and 1 for target rows
    unit : (n + m,), None where every row is its own unit
    seed : seed of the classifiers.
    scores : zero where no classifier is fitted.
    """

    features: FloatArray
    label: IntArray
    unit: IntArray | None
    seed: int
    scores: RatioScores

    def training(self, part: ScoredPart) -> tuple[FloatArray, IntArray, IntArray | None]:
        """Return the features, labels and units that a classifier is fitted on."""
        unit = None if self.unit is None else self.unit[part.train]
        return self.features[part.train], self.label[part.train], unit

    def parts(self, cross_fit: int) -> Iterator[ScoredPart]:
        """Yield a part for each fold with enough rows for a classifier."""
        for this in np.unique(self.scores.fold):
            held = self.scores.fold == this
            train = ~held if cross_fit >= 2 else held
            if len(np.unique(self.label[train])) == 2:
                yield ScoredPart(held, train)

    def score(self, part: ScoredPart, model: Any) -> None:
        """Store the scores of a fitted classifier for its rows."""
        n1 = int(self.label[part.train].sum())
        prior = math.log(n1 / (int(part.train.sum()) - n1))
        self.scores.log_ratio[part.held] = log_odds(model, self.features[part.held]) - prior
