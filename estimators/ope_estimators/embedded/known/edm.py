"""The embedded direct method."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from annotated_types import Ge

from ope_bench import Access, Estimate, View
from ope_estimators.embedded.known.integral import embedding_expectation
from ope_estimators.embedded.learned.edm_star import EDMStar

__all__ = ["EDM"]


class EDM(EDMStar):
    """A reward model on embeddings, averaged over the target policy's embeddings.

        V̂ = (1/n) sum_i sum_g π1(g|x_i) q̂(x_i, g),   π1(g|x) = sum_a π1(a|x) p(g|a)

    The sum is exact if there are at most 1,024 embeddings or each action has one; else it is an
    average over draws of action and embedding. q̂ is averaged over the folds' models. No standard
    error: the variance of the terms does not reflect the error of q̂.

    Assumptions: the reward depends on the action only through its embedding (and the context);
    the target policy and p(g|a) are known; q̂ is accurate where the target policy acts.
    Fails when: q̂ extrapolates to embeddings that were hardly logged: the bias is not detected.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    cross_fit : number of folds, whose models are averaged; where rows form units, each model is
        used on the units that it was fitted without; 1 fits one model on all rows.
    draws : draws per context where the sum is not exact.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022) prints another
    sum, which is `EDMPaper`.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(EDM("ridge"), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["summed_over"]
    'atoms'
    """

    access = Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION

    draws: Annotated[int, Ge(1)] = 64

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        # A stored seed, so that repeated calls of estimate use the same draws.
        self.draw_seed_ = int(rng.integers(2**63))
        return super().fit(view, rng=rng, device=device)

    def estimate(self, view: View) -> Estimate:
        """Average the model over contexts and embeddings."""
        rng = np.random.default_rng(self.draw_seed_)
        # Without units, the models are averaged in every context.
        parts = self.reward_.parts() if view.has_units else [(self.reward_, slice(None))]
        expected = np.empty(view.n)
        for model, rows in parts:
            expected[rows], how = embedding_expectation(
                view, model, context=view.context[rows], draws=self.draws, rng=rng
            )
        return Estimate(float(expected.mean()), diagnostics={"summed_over": how})
