"""The more robust doubly robust estimator."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Diagnostic, FloatArray, View
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.features.actions import ActionFeaturesName
from ope_estimators.features.pairs import PairFeatures
from ope_estimators.learning.learners import MIXED_MODELS, frozen, regressor
from ope_estimators.nuisance.pooled import pooled_params, pooled_parts, require_no_features
from ope_estimators.nuisance.reward import FittedReward, fit_by_folds

__all__ = ["MRDR"]


class MRDR(DR):
    """The doubly robust estimator whose reward model is fitted to make its variance small.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + w_i (r_i - q̂(x_i, a_i)) ],
        q̂ = argmin_f sum_i w_i² (1 - π0(a_i|x_i)) (r_i - f(x_i, a_i))²,
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    Given q̂ with errors Δ = q̂ - q, the part of n times the variance that depends on q̂ is
    E[sum_a π0 w² Δ² - (sum_a π1 Δ)²]. Its squares of single errors are
    E sum_a π0 w² (1 - π0) Δ², the mean over logged rows of w² (1 - π0) Δ²; its products of errors
    at two actions are left out. For a deterministic target policy there are none, and the weights
    are (1 - π0) / π0² where it acts; for others they have mean 0 where errors at different
    actions are uncorrelated. For continuous actions the weights are w².

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: few rows carry the weights of the regression: q̂ is then poor everywhere, and the
    sum over actions with it. Support is missing: as for `DR`.

    Parameters
    ----------
    regressor : a regressor's name; one that takes weights of rows.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal`` or ``embedding``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    clip : largest weight of a residual; larger ones are cut. The regression's are not.
    interval, level, reward_range, resamples : as for `DR`.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    Raises
    ------
    ParameterError : the regressor takes no weights.

    References
    ----------
    More robust doubly robust off-policy evaluation (Farajtabar, Chow and Ghavamzadeh, 2018),
    section 4; the weights for a deterministic target policy are there.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(MRDR("ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    action_features: ActionFeaturesName = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model, which no other estimator shares: its weights know the policies."""
        self.reward_ = self._fitted(view, self.cross_fit, rng)
        return self

    def _fitted_to_all(self, view: View) -> FittedReward:
        return self._fitted(view, 1, view.estimator_rng("mrdr"))

    def _fitted(self, view: View, cross_fit: int, rng: np.random.Generator) -> FittedReward:
        given = frozen(self.regressor_params)
        features: PairFeatures
        if self.regressor in MIXED_MODELS and view.n_actions is not None:
            require_no_features(self.action_features)
            features, make = pooled_parts(view, pooled_params(self.regressor, given))
        else:
            features = PairFeatures(view, "action", self.action_features)

            def make(seed: int) -> Any:
                return regressor(self.regressor, seed=seed, device=view.device, params=given)

        return fit_by_folds(
            view,
            features,
            view.action,
            make,
            cross_fit=cross_fit,
            rng=rng,
            weight=variance_weights(view, self._propensity(view)),
        )

    def _expected_reward(self, view: View) -> FloatArray:
        return self.reward_.logged_expected(view.target_policy, view.context)

    def _signal(self, view: View, residual: FloatArray) -> dict[str, Diagnostic]:
        return {}  # The weights of its fit make the model another one.


def variance_weights(view: View, propensity: FloatArray) -> FloatArray:
    """Return the weights of the logged rows in the regression, w² (1 - π0): (n,)."""
    ratio = view.target_policy.probability(view.context, view.action) / propensity
    others = 1.0 if view.n_actions is None else 1.0 - propensity
    weight: FloatArray = np.square(ratio) * others
    return weight
