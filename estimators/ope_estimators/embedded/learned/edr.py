"""The embedded doubly robust estimator from samples only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    Diagnostic,
    Estimate,
    View,
)
from ope_estimators.actions.weighting.intervals import IntervalOptions
from ope_estimators.actions.weighting.weighted_mean import standard_error_of_sum
from ope_estimators.density_ratio.ratio import Ratio, RatioModel
from ope_estimators.embedded.learned.ratio_based import RatioBased
from ope_estimators.embedded.learned.second_models import (
    CorrectedAnswer,
    answer,
    reason_to_withhold,
    second_ratio,
    second_reward,
)
from ope_estimators.learning.learners import (
    MIXED,
    RegressorName,
    devices,
    frozen,
    requires,
)
from ope_estimators.nuisance.reward import FittedReward, RewardModel

__all__ = ["EDR"]


class EDR(IntervalOptions, RatioBased):
    """A reward model averaged over the target sample, corrected by weighted residuals.

        V̂ = (1/m) sum_j q̂(C'_j, G'_j) + sum_i ŵ_i (r_i - q̂(C_i, G_i)) / sum_i ŵ_i

    ŵ as in `EPW`. Both models are cross-fitted: no row is predicted or weighted by a model that
    has seen it. The bias is a product of the errors of q̂ and of ŵ: right where either is.

    The standard error is that of the mean of the terms, both models taken as given, which is
    right where their errors multiply to less than 1/sqrt(n). It is withheld where that cannot be
    believed: where a second pair of cheap models (a regression of another kind, and logistic
    regression) answers more than one standard error away, or where q̂ explains less than half of
    the rewards' variance. The second pair plays no part in the estimate. Where both pairs err
    alike, no such check sees it.

    Assumptions: rewards depend on the action through its embedding only; embedding support as
    in `EPW`; q̂ or ŵ consistent.
    Fails when: both models are wrong in the same place. In-sample (``cross_fit`` below 2)
    residuals shrink, and the standard error with them.

    Parameters
    ----------
    composition, classifier, classifier_params, calibration, clip, ratio : of the ratio, as `EPW`.
    cross_fit : folds of both models, by unit; 0 or 1 fits and predicts the same rows.
    regressor : a regressor's name, for the reward given embedding and context.
    regressor_params : its parameters.
    self_normalized : divide the second sum by the weights' sum; else by n.
    interval : ``bootstrap``, an interval beside the standard error, with all models fitted anew on
        each resample of units; ``asymptotic``, none.
    level : of the bootstrap interval.
    resamples : number of bootstrap samples.

    References
    ----------
    Doubly robust policy evaluation and optimization (Dudik, Erhan, Langford and Li, 2014),
    equation 1, for known densities. Double/debiased machine learning (Chernozhukov et al.,
    2018), for cross-fitting.

    >>> from ope_bench import evaluate
    >>> record = evaluate(EDR(cross_fit=2, regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    regressor: RegressorName = MIXED
    regressor_params: Mapping[str, Any] | None = None
    self_normalized: bool = True

    @property
    def devices(self) -> tuple[str, ...]:
        """CUDA where at least one of the models is trained there."""
        return max(super().devices, devices(self.regressor), key=len)

    @property
    def requires(self) -> tuple[str, ...]:
        """The modules of both pairs of models."""
        second = (*requires("quadratic"), *requires("logistic"))
        return (*super().requires, *requires(self.regressor), *second)

    def reward_model(self) -> RewardModel:
        """Return the reward given embedding and context."""
        return RewardModel(
            learner=self.regressor,
            params=frozen(self.regressor_params),
            on="embedding",
            cross_fit=max(1, self.cross_fit),
        )

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Learn ratio and reward, or find them learned; then the second pair."""
        self.reward_ = view.fitted(self.reward_model())
        super().fit(view, rng=rng, device=device)
        self.second_reward_ = view.fitted(second_reward(view, self.reward_model()))
        self.second_ratio_ = view.fitted(self._second_ratio(view))
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the corrected average and its standard error, unless that is withheld."""
        ratio = self.ratio_
        own = self._answer(view, self.reward_, ratio)
        second = self._answer(view, self.second_reward_, self.second_ratio_)
        error = standard_error_of_sum(own.logged, own.target, view)
        facts: dict[str, Diagnostic] = {
            **ratio.diagnostics,
            "direct": own.direct,
            "correction": own.correction,
            "explained": own.explained,
            "second_value": second.value,
        }
        if error is not None:
            # Equal answers without any spread are no reason to doubt.
            distance = abs(second.value - own.value) / max(error, np.finfo(float).tiny)
            reason = reason_to_withhold(distance, own.explained)
            facts["second_distance"] = distance
            if reason:
                facts[STANDARD_ERROR_WITHHELD] = reason
                error = None
        # What makes a standard error doubtful is a bias, which resamples share.
        resampled = self.interval == "bootstrap" and error is not None
        return Estimate(
            own.value,
            error,
            weights=ratio.weights,
            diagnostics=facts,
            target_weights=ratio.target_weights,
            weight_space="embedding",
            terms=own.correction + own.logged - own.logged.mean(),
            target_terms=own.target,
            interval=self._bootstrap(view) if resampled else None,
        )

    def _second_ratio(self, view: View) -> RatioModel:
        return second_ratio(view, self.ratio_model(), classified=self.ratio == "classifier")

    def _answer(self, view: View, reward: FittedReward, ratio: Ratio) -> CorrectedAnswer:
        return answer(
            view.reward,
            reward.logged(view.context, view.embedding),
            reward.at_target(view.target_context, view.target_embedding),
            ratio.weights,
            self_normalized=self.self_normalized,
        )
