"""Importance weighting of groups of actions with like predicted rewards."""

from __future__ import annotations

import math
from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, Estimate, IntArray, View, standard_error, weighted_terms
from ope_estimators.nuisance.action_clusters import pooled_weights, require_actions
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption

__all__ = ["GroupIPW"]


class GroupIPW(RewardBased):
    """Logged rewards weighted by groups of actions that a reward model takes for alike.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(φ(x_i, a_i)|x_i) / π0(φ(x_i, a_i)|x_i),
        φ(x, a) = which of K bins of equal width between min_b q̂(x, b) and max_b q̂(x, b)

    In each context the actions are grouped anew. One group gives the mean reward, groups of one
    action `IPW`. The model only groups; its errors count as far as they put unlike actions
    together. q̂ at row i comes from a model that has not seen the row's fold.

    Assumptions: both policies are known; actions of one group earn alike.
    Fails when: q̂ groups wrongly, as a model that has seen few rows of each action does: the bias
    is then toward the mean logged reward, and the standard error says nothing of it.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    clusters : K; None for the square root of the number of actions, rounded down.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample.

    Raises
    ------
    UnavailableError : actions are continuous.

    References
    ----------
    Offline policy evaluation in large action spaces via outcome-oriented action grouping (Peng
    et al., 2023).

    Note: here each context has bins of its own, between its least and its largest q̂; public code
    bins q̂ over all rows together, which is another estimator.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(GroupIPW("ridge"), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["clusters"]
    10
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY
    row_weights = True

    clusters: Annotated[int, Ge(1)] | None = None
    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        require_actions(view, "it groups finitely many actions")
        self.reward_ = self._fitted_reward(view, "action", self.cross_fit, self.action_features)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the mean of weighted rewards and its standard error."""
        n_actions = require_actions(view, "it groups finitely many actions")
        number = max(1, math.isqrt(n_actions)) if self.clusters is None else self.clusters

        def bins(rows: slice) -> IntArray:
            row = np.repeat(np.arange(rows.start, rows.stop), n_actions)
            action = np.tile(np.arange(n_actions), rows.stop - rows.start)
            q = self.reward_.pairs(view.context, row, action).reshape(-1, n_actions)
            low = q.min(axis=1, keepdims=True)
            width = (q.max(axis=1, keepdims=True) - low) / number
            share = np.divide(q - low, width, out=np.zeros_like(q), where=width > 0)
            index: IntArray = np.minimum(share.astype(np.int64), number - 1)
            return index

        weights = pooled_weights(view, bins)
        terms = weighted_terms(weights * view.reward, view.row_weight)
        mean = float(np.average(weights, weights=view.row_weight))
        facts = {"mean_weight": mean, "clusters": number}
        error = standard_error(terms, view.unit)
        return Estimate(float(terms.mean()), error, weights, facts, terms=terms)
