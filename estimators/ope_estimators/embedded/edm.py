"""The embedded direct method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge

from ope_bench.data import Estimate
from ope_bench.view import Access, View
from ope_estimators.embedded.edm_star import EDMStar
from ope_estimators.embedded.integral import embedding_expectation
from ope_estimators.nuisance.learners import RegressorName

__all__ = ["EDM"]


class EDM(EDMStar):
    """A reward model on embeddings, averaged over what the target policy would show.

        V̂ = (1/n) sum_i sum_g π1(g|x_i) q̂(x_i, g),   π1(g|x) = sum_a π1(a|x) p(g|a)

    The sum is exact where there are at most 1,024 embeddings or where each action has one; else
    it is an average over draws of action and embedding. q̂ is averaged over the folds' models.
    Offers no standard error: the spread of the terms says nothing of q̂'s error.

    Assumptions: the reward depends on the action only through its embedding (and the context);
    the target policy and p(g|a) are known; q̂ is right where the target policy acts.
    Fails when: q̂ extrapolates to embeddings that were hardly logged: the bias is silent.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    cross_fit : folds whose models are averaged; 1 fits one model on all rows.
    draws : draws a context where the sum is not done exactly.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum; it is `EDMPaper`.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(EDM("ridge"), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["summed_over"]
    'atoms'
    """

    access = Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION

    def __init__(
        self,
        regressor: RegressorName = "gbm",
        regressor_params: Mapping[str, Any] | None = None,
        cross_fit: Annotated[int, Ge(1)] = 1,
        draws: Annotated[int, Ge(1)] = 64,
    ) -> None:
        super().__init__(regressor, regressor_params, cross_fit)
        self.draws = draws

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        # Kept as a seed, so that asking twice for the estimate gives the same draws.
        self.draw_seed_ = int(rng.integers(2**63))
        return super().fit(view, rng=rng, device=device)

    def estimate(self, view: View) -> Estimate:
        """The average of the model over contexts and embeddings."""
        rng = np.random.default_rng(self.draw_seed_)
        expected, how = embedding_expectation(view, self.reward_, draws=self.draws, rng=rng)
        return Estimate(float(expected.mean()), diagnostics={"summed_over": how})
