"""The direct method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge

from ope_bench.data import Estimate
from ope_bench.view import Access, View
from ope_estimators.nuisance.features import ActionFeaturesName
from ope_estimators.nuisance.learners import RegressorName
from ope_estimators.nuisance.reward_based import RewardBased

__all__ = ["DM"]


class DM(RewardBased):
    """A reward model averaged over what the target policy would do in the logged contexts.

        V̂ = (1/n) sum_i sum_a π1(a|x_i) q̂(x_i, a)

    Offers no standard error: the spread of the terms says nothing of the error of q̂.

    Assumptions: q̂ is right where the target policy acts.
    Fails when: it extrapolates: where the logs lack what the target policy does, the bias is
    silent.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    action_features : how actions become features: ``one-hot`` (an action never logged looks
        like none at all), ``ordinal`` (its number), ``embedding`` (its own, or the mean of the
        embeddings that the samples show for it).
    cross_fit : folds of the logs, the model of a row not having seen its fold; 1 fits one model
        on all rows.

    References
    ----------
    Doubly robust policy evaluation and learning (Dudík, Langford and Li, 2011), for the name.
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum; it is `DMPaper`.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> forms = DM(action_features="embedding"), DM(action_features="ordinal")
    >>> told, numbered = evaluate(forms, "saito-toy", replicates=1)
    >>> truth = told.truth_expected
    >>> abs(told.estimate - truth) < abs(numbered.estimate - truth)
    True
    """

    access = Access.TARGET_POLICY

    def __init__(
        self,
        regressor: RegressorName = "gbm",
        regressor_params: Mapping[str, Any] | None = None,
        action_features: ActionFeaturesName = "one-hot",
        cross_fit: Annotated[int, Ge(1)] = 1,
    ) -> None:
        self.regressor = regressor
        self.regressor_params = regressor_params
        self.action_features = action_features
        self.cross_fit = cross_fit

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        self.reward_ = self._fitted_reward(view, "action", self.action_features)
        return self

    def estimate(self, view: View) -> Estimate:
        """The average of the model over contexts and actions."""
        expected = self.reward_.logged_expected(view.target_policy, view.context)
        return Estimate(float(expected.mean()))
