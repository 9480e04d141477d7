"""The direct method."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, Estimate, View
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption

__all__ = ["DM"]


class DM(RewardBased):
    """A reward model averaged over the target policy's actions in the logged contexts.

        V̂ = (1/n) sum_i sum_a π1(a|x_i) q̂(x_i, a)

    No standard error: the variance of the terms does not reflect the error of q̂.

    Assumptions: q̂ is accurate where the target policy acts.
    Fails when: q̂ extrapolates: for target actions that are missing from the logs, the bias is not
    detected.

    Parameters
    ----------
    regressor : a regressor's name. The default ``pooled`` is a linear mixed model: effects of
        context and embedding that all actions share, with squares and products where these are
        few, and an intercept and slopes of each action, shrunk toward zero by an amount chosen
        from the data. An action with few rows stays near what is shared; one that was never
        logged has that alone, so its embedding is what is known of it. Others are ``gbm``,
        ``ridge``, ``quadratic`` (squares and products of features, with a penalty chosen from the
        data) or ``mlp``; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : how actions become features of other regressors than ``pooled``: ``one-hot``
        (an action never logged has zeros only), ``ordinal`` (its number), ``embedding`` (its
        embedding, or the mean of its embeddings in both samples). ``separate`` fits the regressor
        to context and embedding and then, to its residuals, a linear model of the context for each
        action, shrunk toward zero: an action with few rows stays near the common model, one
        without rows has it. The amount is chosen from the data, or is ``shrinkage`` in
        ``regressor_params``: the number of rows that move an action half-way.
    cross_fit : number of folds of the logs; the model for a row is fitted without its fold; 1 fits
        one model on all rows.

    References
    ----------
    Doubly robust policy evaluation and learning (Dudík, Langford and Li, 2011), for the name.
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum, which is `DMPaper`.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> forms = DM("gbm", action_features="embedding"), DM("gbm", action_features="ordinal")
    >>> embedding, ordinal = evaluate(forms, "saito-toy", replicates=1)
    >>> truth = embedding.truth_expected
    >>> abs(embedding.estimate - truth) < abs(ordinal.estimate - truth)
    True
    """

    @property
    def access(self) -> Access:
        """The target policy, and predictions that are given."""
        return self._with_predictions(Access.TARGET_POLICY)

    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 1

    @property
    def row_weights(self) -> bool:
        """The mean and the model use them."""
        return True

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        self.reward_ = self._fitted_reward(view, "action", self.cross_fit, self.action_features)
        return self

    def estimate(self, view: View) -> Estimate:
        """Average the model over contexts and actions."""
        value = np.average(self._expected_reward(view), weights=view.row_weight)
        return Estimate(float(value))
