"""Predictions of rewards that were made elsewhere, in the place of a reward model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from ope_bench import Access, FloatArray, IntArray, Policy, UnavailableError, View, row_chunks
from ope_estimators.nuisance.partial_expectation import probability_table
from ope_estimators.nuisance.reward import FittedReward


@dataclass(frozen=True)
class GivenRewardModel:
    """The problem's predictions, as the shared fit of a reward model."""

    access: ClassVar[Access] = Access.PREDICTED_REWARD

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedReward:
        """Return the predictions; nothing is fitted."""
        return GivenReward(view.predicted_reward)


class GivenReward(FittedReward):
    """q̂ that is known at the logged rows alone, from data that these rows are not part of.

    Parameters
    ----------
    table : (n, n_actions)
    """

    def __init__(self, table: FloatArray) -> None:
        self._given = table

    def logged(self, context: FloatArray, points: Any) -> FloatArray:
        """Look up one action per logged row: (n,)."""
        return self.pairs(context, np.arange(len(self._given)), points)

    def pairs(self, context: FloatArray, row: IntArray, points: Any) -> FloatArray:
        """Look up pairs of a logged row and an action: (k,)."""
        predicted: FloatArray = self._given[row, points]
        return predicted

    def table(self, context: FloatArray, rows: slice) -> FloatArray:
        """Look up all actions in logged rows: (k, n_actions)."""
        predicted: FloatArray = self._given[rows]
        return predicted

    def logged_expected(self, policy: Policy, context: FloatArray) -> FloatArray:
        """Compute sum_a pi(a|x) q̂(x, a) per logged row: (n,)."""
        n, n_actions = self._given.shape
        out = np.empty(n)
        for rows in row_chunks(n, n_actions):
            chance = probability_table(policy, context[rows], n_actions)
            out[rows] = np.einsum("ka,ka->k", chance, self._given[rows])
        return out

    def _refuse(self, *args: object, **options: object) -> NoReturn:
        msg = (
            "regressor=given has predictions at the logged rows alone; the estimator needs them "
            "elsewhere: choose a regressor"
        )
        raise UnavailableError(msg)

    __call__ = everywhere = expected = at_target = parts = _refuse
