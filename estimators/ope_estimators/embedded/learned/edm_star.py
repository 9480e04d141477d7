"""The embedded direct method from samples only."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Estimate, View
from ope_estimators.nuisance.reward_based import RewardBased

__all__ = ["EDMStar"]


class EDMStar(RewardBased):
    """A reward model on embeddings, averaged over the target sample: no policy is needed.

        V̂ = (1/m) sum_j q̂(x'_j, g'_j),   (x', g') the target sample

    The natural form where embeddings are seen and densities are not: the target sample does the
    integration. Offers no standard error: the spread of the terms says nothing of q̂'s error.

    Assumptions: the reward depends on the action only through its embedding (and the context);
    q̂ is right at the target sample.
    Fails when: the target sample's embeddings lie far from the logged ones: q̂ extrapolates.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    cross_fit : folds by unit, whose models are averaged but for those that have seen the target
        row's unit; 1 fits one model on all rows.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum; it is `EDMPaper`.
    """

    cross_fit: Annotated[int, Ge(1)] = 1

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        self.reward_ = self._fitted_reward(view, "embedding", self.cross_fit)
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the average of the model over the target sample."""
        # Without units the models are averaged, those of shared contexts included.
        reward = self.reward_.at_target if view.has_units else self.reward_
        return Estimate(float(reward(view.target_context, view.target_embedding).mean()))
