"""The direct method by the Open Bandit Pipeline."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench.view import Access, View
from ope_estimators.obp.adapter import Adapter, table
from ope_estimators.obp.reward_model import fitted_rewards

__all__ = ["DM"]


class DM(Adapter):
    """Open Bandit Pipeline's direct method, with its cross-fitted reward model.

        V̂ = (1/n) sum_i sum_a π1(a|x_i) q̂(x_i, a)

    Assumptions: the reward model holds the truth; finitely many actions.
    Fails when: it does not; where the logs lack support it extrapolates and nothing tells.

    Parameters
    ----------
    trees : of the random forest, as in the experiments of marginalised weighting.
    folds : for cross-fitting.

    References
    ----------
    Open Bandit Dataset and Pipeline (Saito, Aihara, Matsutani and Narita, 2021).
    """

    access = Access.TARGET_POLICY

    def __init__(
        self, trees: Annotated[int, Ge(1)] = 10, folds: Annotated[int, Ge(1)] = 2
    ) -> None:
        self.trees = trees
        self.folds = folds

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the peer's reward model."""
        from ope_estimators.obp.peer import incompatibility_told

        with incompatibility_told():
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
