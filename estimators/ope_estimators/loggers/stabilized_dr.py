"""Doubly robust estimation from a logger that adapts from batch to batch."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from ope_bench import (
    Access,
    Estimate,
    Policy,
    PositivityViolation,
    View,
    row_chunks,
    standard_error,
)
from ope_estimators.learning.learners import GIVEN
from ope_estimators.loggers.stratified import Stratified
from ope_estimators.nuisance.action_clusters import require_actions
from ope_estimators.nuisance.partial_expectation import probability_table
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption

__all__ = ["StabilizedDR"]


class StabilizedDR(Stratified, RewardBased):
    """Doubly robust terms averaged with weights that even out the variances of batches.

        V̂ = sum_i h_k(i) φ_i / sum_i h_k(i),
        φ_i = sum_a π1(a|x_i) q̂_k(x_i, a) + π1(a_i|x_i)/π0k(a_i|x_i) (r_i - q̂_k(x_i, a_i)),
        h_k = [ mean over contexts x of sum_a π1(a|x)² / π0k(a|x) ]^(-1/2)

    Strata are batches in the order of time; the logger π0k of batch k was learned from the batches
    before it, and so is q̂_k here (0 in the first). Terms of a batch are then unbiased given what
    was before, but a logger that turns away from the target's actions makes their variance depend
    on the past, and their plain mean is not normal. For a target of one action, h_k is the root
    of its propensity. Equal loggers have constant h, which gives the mean of the terms, `DR`.

    Assumptions: the policies of all batches are known, and each has every action of the target.
    Fails when: a logger takes the target's actions so rarely that its batch has next to no weight
    and the others are few; strata are not batches of one logger in time.

    Parameters
    ----------
    regressor : a regressor's name; ``given`` takes the problem's predictions, in all batches.
    regressor_params : its parameters.
    action_features : as for `DM`.

    References
    ----------
    Confidence intervals for policy evaluation in adaptive experiments (Hadad, Hirshberg, Zhan,
    Wager and Athey, 2021), for a single action. Off-policy evaluation via adaptive weighting with
    data from contextual bandits (Zhan, Hadad, Hirshberg and Athey, 2021), section 3.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> batches = "linear-bandit[loggers=[[0,1,2]]]"
    >>> record = evaluate(StabilizedDR("ridge"), batches, replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    action_features: ActionFeaturesOption = "one-hot"

    @property
    def access(self) -> Access:
        """The loggers, and predictions that are given."""
        return self._with_predictions(super().access)

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Compute the terms of each batch, its model fitted to the batches before."""
        require_actions(view, "weights of batches sum over finitely many actions")
        weight, terms = np.empty(view.n), np.empty(view.n)
        target = np.arange(view.m if view.has_target_sample else 0)
        for k in np.unique(view.stratum):
            rows, before = np.flatnonzero(view.stratum == k), np.flatnonzero(view.stratum < k)
            context, action = view.context[rows], view.action[rows]
            chance = view.target_policy.probability(context, action)
            weight[rows] = chance / view.stratum_policies[k].probability(context, action)
            given = self.regressor == GIVEN
            if not given and not len(before):
                terms[rows] = weight[rows] * view.reward[rows]
                continue
            part = view.rows(rows if given else before, target)
            model = self._fitted_reward(part, "action", 1, self.action_features)
            view.violations += part.violations
            at_logged = (model.logged if given else model)(context, action)
            expected = (model.logged_expected if given else model.expected)(
                view.target_policy, context
            )
            terms[rows] = expected + weight[rows] * (view.reward[rows] - at_logged)
        self.weight_, self.terms_ = weight, terms
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the weighted mean of the terms and its standard error.

        Raises
        ------
        PositivityViolation : every logger lacks an action of the target.
        """
        share = np.empty(view.n)
        for k in np.unique(view.stratum):
            share[view.stratum == k] = _stability(view, view.stratum_policies[k])
        if not share.any():
            msg = "every batch's logger lacks an action of the target policy"
            raise PositivityViolation(msg, fallback=float(self.terms_.mean()))
        share /= share.mean()
        value = float((share * self.terms_).mean())
        # To first order, as of a ratio of means.
        terms = value + share * (self.terms_ - value)
        facts = {"mean_weight": float(self.weight_.mean()), "largest_share": float(share.max())}
        error, used = standard_error(terms, view.unit), share * self.weight_
        return Estimate(value, error, used, facts, weight_space="action", terms=terms)


def _stability(view: View, policy: Policy) -> float:
    """Return h of a batch: one over the root of the variance that its logger gives terms."""
    total, n_actions = 0.0, view.n_actions or 1
    for rows in row_chunks(view.n, n_actions):
        context = view.context[rows]
        target = probability_table(view.target_policy, context, n_actions)
        logging = probability_table(policy, context, n_actions)
        with np.errstate(divide="ignore"):
            total += float((target[target > 0] ** 2 / logging[target > 0]).sum())
    return math.sqrt(view.n / total)
