"""The embedded doubly robust estimator from samples only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.data import Estimate
from ope_bench.view import View
from ope_estimators.baseline.weighting import standard_error
from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.composition import Composition
from ope_estimators.density_ratio.settings import Clip, Folds
from ope_estimators.embedded.ratio_based import RatioBased
from ope_estimators.nuisance.learners import (
    ClassifierName,
    RegressorName,
    devices,
    frozen,
    requires,
)
from ope_estimators.nuisance.reward import RewardModel

__all__ = ["EDR"]


class EDR(RatioBased):
    """A reward model averaged over the target sample, its errors mended by learnt weights.

        V̂ = (1/m) sum_j q̂(C'_j, G'_j) + sum_i ŵ_i (r_i - q̂(C_i, G_i)) / sum_i ŵ_i

    ŵ as in `EPW`. Both models are cross-fitted: no row is predicted or weighted by a model that
    has seen it. The bias is a product of the errors of q̂ and of ŵ: right where either is. The
    standard error is that of the mean of the terms, both models taken as given, which is right
    to first order where their errors multiply to less than 1/sqrt(n).

    Assumptions: rewards depend on the action through its embedding only; embedding support as
    in `EPW`; q̂ or ŵ consistent.
    Fails when: both models are wrong in the same place.

    Parameters
    ----------
    composition, classifier, classifier_params, calibration, clip : of the ratio, as `EPW`.
    cross_fit : folds of both models; 0 or 1 fits and predicts the same rows.
    regressor : a regressor's name, for the reward given embedding and context.
    regressor_params : its parameters.
    self_normalized : divide the second sum by the weights' sum; else by n.

    References
    ----------
    Doubly robust policy evaluation and optimization (Dudik, Erhan, Langford and Li, 2014),
    equation 1, for known densities. Double/debiased machine learning (Chernozhukov et al.,
    2018), for cross-fitting.

    >>> from ope_bench import evaluate
    >>> record = evaluate(EDR(cross_fit=2, regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    check_params: ClassVar[Mapping[str, Any]] = {"regressor_params": {"n_estimators": 20}}

    def __init__(
        self,
        composition: Composition = "concat",
        classifier: ClassifierName = "hist-gbm",
        classifier_params: dict[str, Any] | None = None,
        cross_fit: Folds = 5,
        calibration: Calibration = "temperature",
        clip: Clip = 1e3,
        regressor: RegressorName = "gbm",
        regressor_params: Mapping[str, Any] | None = None,
        self_normalized: bool = True,
    ) -> None:
        self.composition = composition
        self.classifier = classifier
        self.classifier_params = classifier_params
        self.cross_fit = cross_fit
        self.calibration = calibration
        self.clip = clip
        self.regressor = regressor
        self.regressor_params = regressor_params
        self.self_normalized = self_normalized

    @property
    def devices(self) -> tuple[str, ...]:
        """CUDA where at least one of the models is trained there."""
        return max(super().devices, devices(self.regressor), key=len)

    @property
    def requires(self) -> tuple[str, ...]:
        """The modules of both models."""
        return (*super().requires, *requires(self.regressor))

    def reward_model(self) -> RewardModel:
        """The reward given embedding and context."""
        return RewardModel(
            learner=self.regressor,
            params=frozen(self.regressor_params),
            on="embedding",
            cross_fit=max(1, self.cross_fit),
        )

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Learn ratio and reward, or find them learnt."""
        self.reward_ = view.fitted(self.reward_model())
        return super().fit(view, rng=rng, device=device)

    def estimate(self, view: View) -> Estimate:
        """The mended average and its standard error."""
        reward, ratio = self.reward_, self.ratio_
        residual = view.reward - reward.logged(view.context, view.embedding)
        # Row i of shared contexts lies in fold i of both samples.
        at_target = (reward.logged if view.shared_contexts else reward)(
            view.target_context, view.target_embedding
        )
        weights = ratio.weights
        normal = float(weights.mean()) if self.self_normalized else 1.0
        correction = float((weights * residual).mean()) / normal
        model = float(at_target.mean())
        centred = residual - correction if self.self_normalized else residual
        return Estimate(
            model + correction,
            _spread(at_target, weights * centred / normal, shared=view.shared_contexts),
            weights=weights,
            diagnostics={**ratio.diagnostics, "direct": model, "correction": correction},
            target_weights=ratio.target_weights,
            weight_space="embedding",
        )


def _spread(at_target: FloatArray, corrections: FloatArray, *, shared: bool) -> float | None:
    """Standard error of the sum of two means, over the same contexts or over independent ones."""
    if shared:
        return standard_error(at_target + corrections)
    parts = standard_error(at_target), standard_error(corrections)
    return None if None in parts else math.hypot(*(part for part in parts if part is not None))
