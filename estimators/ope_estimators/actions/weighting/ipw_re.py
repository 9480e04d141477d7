"""Importance weighting with a reward model where support is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, FloatArray, Solution, UnavailableError, View
from ope_estimators.actions.weighting.ipw import ActionWeighting
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.features.actions import ActionFeaturesName
from ope_estimators.nuisance.partial_expectation import partial_expectation, probability_table
from ope_estimators.nuisance.reward_based import RewardBased

__all__ = ["IPWRE"]


class IPWRE(ActionWeighting, RewardBased):
    """Importance weighting, and a reward model for the actions that logs never contain.

        V̂ = (1/n) sum_i [ w_i r_i + sum_{a: π0(a|x_i) = 0} π1(a|x_i) q̂(x_i, a) ],
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    Rewards are extrapolated to unsupported actions and nowhere else; with full support it is
    `IPW`. The diagnostic ``unsupported_mass`` is the target policy's share of those actions. A
    standard error is given where that share is 0: elsewhere the error of q̂ is not in the spread
    of the terms.

    Assumptions: both policies are known; q̂ is right at actions that were never logged in such
    contexts.
    Fails when: the model extrapolates wrongly, which nothing shows; the policies overlap little
    where there is support: the variance is that of the weights.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal`` or ``embedding``; as for `DM`. With ``one-hot`` an
        action that was never logged has the features of none.
    cross_fit : folds of the logs, the model of a row not having seen its fold; 1 fits one model
        on all rows.

    Raises
    ------
    UnavailableError : actions are continuous.

    References
    ----------
    Off-policy bandits with deficient support (Sachdeva, Su and Joachims, 2020), section 4.2,
    reward extrapolation.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> from ope_estimators.actions.weighting.ipw import IPW
    >>> both = evaluate((IPWRE("ridge"), IPW()), "saito-toy", replicates=1)
    >>> both[0].estimate == both[1].estimate
    True
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY
    row_weights = True

    action_features: ActionFeaturesName = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 1

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        if view.n_actions is None:
            msg = "it sums over actions without support; this environment's are continuous"
            raise UnavailableError(msg)
        self.reward_ = self._fitted_reward(view, "action", self.cross_fit, self.action_features)
        return self

    def _rows(self, view: View) -> WeightedRows:
        n_actions = view.n_actions
        assert n_actions is not None  # noqa: S101  fit has refused continuous actions

        def unsupported(context: FloatArray) -> FloatArray:
            logging = probability_table(view.logging_policy, context, n_actions)
            target = probability_table(view.target_policy, context, n_actions)
            return np.where(logging == 0, target, 0.0)

        rows = super()._rows(view)
        value, mass = partial_expectation(self.reward_, view.context, n_actions, unsupported)
        share = float(np.average(mass, weights=view.row_weight))
        return replace(rows, baseline=value, unsupported_mass=lambda: share)

    def _answer(self, rows: WeightedRows) -> Solution:
        found, mass = super()._answer(rows), rows.unsupported_mass()
        error = None if mass else found.standard_error
        return Solution(found.value, error, rows.weight, {"unsupported_mass": mass})
