"""Raw log-ratios: the log-odds of a classifier that tells target from logged rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Diagnostic
from ope_bench.errors import OpeBenchError
from ope_bench.view import View
from ope_estimators.density_ratio.capacity import default_params
from ope_estimators.density_ratio.composition import Composition, compose
from ope_estimators.density_ratio.log_odds import log_odds
from ope_estimators.flows.flow import FlowModel
from ope_estimators.nuisance.folds import folds
from ope_estimators.nuisance.learners import classifier
from ope_estimators.nuisance.together import descend_together

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
        begun = self.begin(view, rng=rng, device=device)
        for part in begun.parts(self.cross_fit):
            model = self._classifier(begun, device)
            model.fit(begun.features[part.train], begun.label[part.train])
            begun.score(part, model)
        return begun.scores

    def begin(self, view: View, *, rng: np.random.Generator, device: str) -> BegunScores:
        """Features, folds and seed."""
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
        # Without a classifier, the two samples count as alike.
        return BegunScores(features, label, seed, Scores(np.zeros(len(label)), fold, facts))

    def complete(
        self, begun: Sequence[BegunScores], *, device: str
    ) -> list[Scores | OpeBenchError]:
        """The scores of many replicates, all their networks trained side by side."""
        from ope_estimators.nuisance.mlp import row_log_loss

        work = [
            (number, part, self._classifier(one, device))
            for number, one in enumerate(begun)
            for part in one.parts(self.cross_fit)
        ]
        trainings = [
            model.begin(begun[number].features[part.train], begun[number].label[part.train])
            for number, part, model in work
        ]
        outcome: list[Scores | OpeBenchError] = [one.scores for one in begun]
        descents = descend_together(trainings, row_log_loss)
        for (number, part, model), descent in zip(work, descents, strict=True):
            if isinstance(descent, OpeBenchError):
                outcome[number] = descent
            else:
                begun[number].score(part, model)
        return outcome

    def _classifier(self, begun: BegunScores, device: str) -> Any:
        # Sizes are for all rows, so that every fold has the same.
        defaults = default_params(self.classifier, len(begun.label))
        params = {**defaults, **dict(self.classifier_params)}
        return classifier(self.classifier, seed=begun.seed, device=device, params=params)


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that one classifier scores, and those that it is fitted on."""

    held: npt.NDArray[np.bool_]
    train: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BegunScores:
    """What classifiers are fitted on, and the scores as they come.

    Parameters
    ----------
    features : (n + m, d)
    label : (n + m,), 0 for logged rows and 1 for target rows
    seed : of the classifiers.
    scores : zero where no classifier has told otherwise.
    """

    features: FloatArray
    label: IntArray
    seed: int
    scores: Scores

    def parts(self, cross_fit: int) -> Iterator[Part]:
        """One for each fold, but for those with too few rows to tell anything."""
        for this in np.unique(self.scores.fold):
            held = self.scores.fold == this
            train = ~held if cross_fit >= 2 else held
            if len(np.unique(self.label[train])) == 2:
                yield Part(held, train)

    def score(self, part: Part, model: Any) -> None:
        """Fill in what a fitted classifier says of its rows."""
        n1 = int(self.label[part.train].sum())
        prior = math.log(n1 / (int(part.train.sum()) - n1))
        self.scores.log_ratio[part.held] = log_odds(model, self.features[part.held]) - prior
