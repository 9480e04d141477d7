"""A second, cheap pair of models, by which a doubly robust estimate judges its standard error."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_bench import FloatArray, View
from ope_estimators.density_ratio.ratio import RatioModel
from ope_estimators.density_ratio.scores import ScoreModel
from ope_estimators.features.pairs import PairFeatures
from ope_estimators.learning.learners import MIXED_MODELS
from ope_estimators.nuisance.reward import RewardModel

__all__ = ["CorrectedAnswer", "answer", "reason_to_withhold", "second_ratio", "second_reward"]

MOST_PRODUCTS = 600
"""Features, squares and products together, beyond which the second models are linear."""

FURTHEST = 1.0
"""Standard errors between the two answers above which the standard error is withheld."""

LEAST_EXPLAINED = 0.5
"""Share of the rewards' variance that the reward model must explain."""

DISAGREE = "another pair of models answers more than one standard error away"
UNEXPLAINED = "the reward model explains less than half of the rewards' variance"


@dataclass(frozen=True, eq=False)
class CorrectedAnswer:
    """A doubly robust estimate in its parts.

    Parameters
    ----------
    direct : mean of the reward model over the target sample.
    correction : weighted mean of its residuals over the logs.
    logged : (n,), terms of the logged rows; their spread is the correction's.
    target : (m,), the reward model at the target rows.
    explained : share of the rewards' variance that the reward model explains; 1 without any.
    """

    direct: float
    correction: float
    logged: FloatArray
    target: FloatArray
    explained: float

    @property
    def value(self) -> float:
        """The estimate."""
        return self.direct + self.correction


def answer(
    reward: FloatArray,
    at_logged: FloatArray,
    at_target: FloatArray,
    weights: FloatArray,
    *,
    self_normalized: bool,
) -> CorrectedAnswer:
    """Return the doubly robust estimate from one pair of models.

    Parameters
    ----------
    reward : (n,)
    at_logged : (n,), the reward model at the logged rows.
    at_target : (m,), at the target rows.
    weights : (n,)
    self_normalized : divide the correction by the weights' sum; else by n.
    """
    residual = reward - at_logged
    normal = float(weights.mean()) if self_normalized else 1.0
    correction = float((weights * residual).mean()) / normal
    centred = residual - correction if self_normalized else residual
    spread = float(np.square(reward - reward.mean()).mean())
    left = float(np.square(residual).mean())
    return CorrectedAnswer(
        direct=float(at_target.mean()),
        correction=correction,
        logged=weights * centred / normal,
        target=at_target,
        explained=1.0 - left / spread if spread > 0 else 1.0,
    )


def second_reward(view: View, own: RewardModel) -> RewardModel:
    """Return the second reward model: quadratic, or linear where products are too many.

    Where that is the estimator's own kind, it is boosting, by histograms beside the default.
    """
    if own.learner in MIXED_MODELS:
        return replace(own, learner="hist-gbm", params=())
    learner = "ridge" if _many(view) else "quadratic"
    return replace(own, learner="gbm" if own.learner == learner else learner, params=())


def second_ratio(view: View, own: RatioModel, *, classified: bool = True) -> RatioModel:
    """Return the second ratio: by logistic regression, with products where they are not too many.

    Where that is the estimator's own kind, it is gradient boosting. An estimator whose own ratio
    is not ``classified`` has another kind.
    """
    params = (("degree", 1),) if _many(view) else ()
    scores = ScoreModel("concat", "logistic", params, own.scores.cross_fit)
    if classified and own.scores.classifier == "logistic" and own.scores.flow is None:
        scores = replace(scores, classifier="hist-gbm", classifier_params=())
    return replace(own, scores=scores)


def _many(view: View) -> bool:
    features = PairFeatures(view, "embedding", "one-hot")
    width: int = features(view.context[:1], view.embedding[:1]).shape[1]
    return width * (width + 3) // 2 > MOST_PRODUCTS


def reason_to_withhold(distance: float, explained: float) -> str | None:
    """Return why a standard error that takes the models as fixed is withheld; None if it is not.

    The bias is the product of both models' errors. Where another pair of models answers
    otherwise, that product is not small beside the standard error. Where much of the rewards is
    unexplained, be it noise or not, nothing shows that the reward model is right, and a learned
    ratio alone has no standard error. Both limits were chosen on 22 worlds that are in no suite:
    see ``results/performance/standard-errors.md``.

    Parameters
    ----------
    distance : of the two answers, in standard errors.
    explained : share of the rewards' variance that the reward model explains.
    """
    if not distance <= FURTHEST:  # nor where the second answer is no number
        return DISAGREE
    return UNEXPLAINED if explained < LEAST_EXPLAINED else None
