"""The reward model averaged over the target policy, shared by the estimators that need it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench import Access, FloatArray, Nuisance, View
from ope_estimators.nuisance.reward import FittedReward

__all__ = ["ExpectedReward"]


@dataclass(frozen=True)
class ExpectedReward:
    """A shared sum: sum_a π1(a|x_i) q̂(x_i, a) of each logged row, q̂ not having seen the row.

    Parameters
    ----------
    model : q̂, a shared fit of rewards given context and action.
    """

    model: Nuisance[FittedReward]

    @property
    def access(self) -> Access:
        """The target policy, and what the model needs."""
        return Access.TARGET_POLICY | getattr(self.model, "access", Access.SAMPLES)

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FloatArray:
        """Return the sum in each logged context: (n,)."""
        expected = view.fitted(self.model).logged_expected(view.target_policy, view.context)
        # Shared with other trials.
        expected.flags.writeable = False
        return expected
