"""Off-policy estimation by the conjunct effect of clusters and a reward model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    Access,
    Diagnostic,
    Estimate,
    ParameterError,
    View,
    standard_error,
)
from ope_estimators.learning.learners import frozen
from ope_estimators.nuisance.action_clusters import (
    Clusters,
    clusters_of,
    pooled_weights,
    require_actions,
)
from ope_estimators.nuisance.pairwise import PairwiseRewardModel
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption

__all__ = ["OffCEM"]

UNEXPLAINED = "weights of actions would change the estimate: clusters do not explain the reward"


class OffCEM(RewardBased):
    """The direct method plus residuals of its model, weighted by clusters of actions.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) f̂(x_i, a) + w_i (r_i - f̂(x_i, a_i)) ],
        w_i = π1(φ(a_i)|x_i) / π0(φ(a_i)|x_i),   π(c|x) = sum_{a: φ(a) = c} π(a|x)

    The weights correct what is wrong with f̂ on average in a cluster; differences within a
    cluster are the model's. One cluster gives the direct method plus the mean residual, a cluster
    for each action `DR`. f̂ at row i comes from a model that has not seen the row's fold.

    Assumptions: both policies are known; π0(φ|x) > 0 wherever π1(φ|x) > 0; f̂ has the right
    differences between the actions of a cluster.
    Fails when: f̂ orders the actions within clusters wrongly: the bias is that of the direct method
    there. Embeddings tell nothing: clusters are then arbitrary. What weights of single actions
    would add to the estimate is the diagnostic ``within_clusters``; where it is more than 1.96 of
    its own standard errors, the clusters do not explain the reward and the standard error, which
    says nothing of that bias, is withheld.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    clusters : number of clusters, made by k-means of the actions' embeddings; or the cluster of
        each action, as a list; None for the square root of the number of actions, 50 from 1,000
        actions on.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample.
    reward : ``regression``, one regression of the reward; ``pairwise``, first of the differences
        of rewards within clusters, then of what is left on context and cluster.

    Raises
    ------
    UnavailableError : actions are continuous.
    ParameterError : ``clusters`` is a list of another length than the number of actions;
        ``separate`` action features with ``pairwise``.

    References
    ----------
    Off-policy evaluation for large action spaces via conjunct effect modeling (Saito, Ren and
    Joachims, 2023).

    Note: the paper fits differences within clusters first, which is ``pairwise``. Its pairs have
    one context; here the rows of a cluster count by the nearness of their contexts. The public
    code draws the true value from another clustering than the estimator's.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(OffCEM("ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"reward": "regression"}

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY

    clusters: Clusters = None
    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5
    reward: Literal["regression", "pairwise"] = "regression"

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit clusters and reward model; other estimators may share both."""
        require_actions(view, "it clusters finitely many actions")
        self.cluster_ = clusters_of(view, self.clusters)
        if self.reward == "regression":
            self.reward_ = self._fitted_reward(
                view, "action", self.cross_fit, self.action_features
            )
            return self
        if self.action_features == "separate" or self.action_features == "own":
            msg = (
                f"reward = 'pairwise' has no form with action_features = {self.action_features!r}"
            )
            raise ParameterError(msg)
        clusters = tuple(self.clusters) if isinstance(self.clusters, list) else self.clusters
        self.reward_model_ = PairwiseRewardModel(
            self.regressor,
            frozen(self.regressor_params),
            self.action_features,
            clusters,
            self.cross_fit,
        )
        self.reward_ = view.fitted(self.reward_model_)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the terms and its standard error."""
        weights = pooled_weights(view, lambda _rows: self.cluster_)
        residual = view.reward - self.reward_.logged(view.context, view.action)
        terms = self._expected_reward(view) + weights * residual
        number = len(np.unique(self.cluster_))
        ratio = view.target_policy.probability(view.context, view.action) / view.propensity
        # With it the estimate would be the doubly robust one, whatever the clusters.
        missing = (ratio - weights) * residual
        within, doubt = float(missing.mean()), standard_error(missing, view.unit)
        facts: dict[str, Diagnostic] = {
            "mean_weight": float(weights.mean()),
            "clusters": number,
            "within_clusters": within,
        }
        error = standard_error(terms, view.unit)
        if doubt is not None and abs(within) > 1.96 * doubt:
            facts[STANDARD_ERROR_WITHHELD] = UNEXPLAINED
            error = None
        return Estimate(float(terms.mean()), error, weights, facts, terms=terms)
