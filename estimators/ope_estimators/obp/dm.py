"""The direct method by the Open Bandit Pipeline."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, View
from ope_estimators.obp.adapter import Adapter, table
from ope_estimators.obp.reward_model import fitted_rewards

__all__ = ["DM"]


class DM(Adapter):
    """Open Bandit Pipeline's direct method, with its cross-fitted reward model.

        V̂ = (1/n) sum_i sum_a π1(a|x_i) q̂(x_i, a)

    Assumptions: the reward model is correctly specified; finitely many actions.
    Fails when: the reward model is misspecified; without support it extrapolates, and the bias is
    not detected.

    Parameters
    ----------
    trees : number of trees of the random forest, as in the experiments of marginalized weighting.
    folds : number of folds for cross-fitting, by unit.

    References
    ----------
    Open Bandit Dataset and Pipeline (Saito, Aihara, Matsutani and Narita, 2021).
    """

    access = Access.TARGET_POLICY

    trees: Annotated[int, Ge(1)] = 10
    folds: Annotated[int, Ge(1)] = 2

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the Pipeline's reward model."""
        from ope_estimators.obp.peer import translate_incompatibility

        with translate_incompatibility():
            self.rewards_ = fitted_rewards(view, trees=self.trees, folds=self.folds, rng=rng)
        return self

    def _value(self, view: View) -> float:
        from obp.ope import DirectMethod

        value = DirectMethod().estimate_policy_value(
            action_dist=table(view.target_policy, view),
            estimated_rewards_by_reg_model=self.rewards_,
            position=np.zeros(view.n, dtype=np.int64),
        )
        return float(value)
