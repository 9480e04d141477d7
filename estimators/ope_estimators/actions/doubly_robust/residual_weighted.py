"""Base of doubly robust estimators with transformed weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, View
from ope_estimators.actions.weighting.ipw import ActionWeighting
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.propensity import EstimatedPropensity
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.nuisance.separate import ActionFeaturesOption

__all__ = ["ResidualWeighted"]


class ResidualWeighted(EstimatedPropensity, ActionWeighting, RewardBased):
    """Mixin before a class that transforms weights: the weights then multiply residuals.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + u_i (r_i - q̂(x_i, a_i)) ]

    q̂ at row i comes from a model that was fitted without the row's fold, as in `DR`.

    Parameters
    ----------
    regressor, regressor_params : the reward model.
    action_features : how actions become features.
    cross_fit : number of folds; 1 fits in-sample.
    """

    in_batches = True  # Its fit is the shared one.

    action_features: ActionFeaturesOption = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5

    @property
    def access(self) -> Access:
        """What weights need, and predictions that are given."""
        return self._with_predictions(super().access)

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        super().fit(view, rng=rng, device=device)
        self.reward_ = self._fitted_reward(view, "action", self.cross_fit, self.action_features)
        return self

    def _rows(self, view: View) -> WeightedRows:
        rows = super()._rows(view)
        return replace(
            rows,
            outcome=rows.outcome - self.reward_.logged(view.context, view.action),
            baseline=self._expected_reward(view),
        )
