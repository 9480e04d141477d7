"""Base of the estimators whose weights are fitted to both samples without a classifier."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np

from ope_bench import Diagnostic, Estimate, Estimator, Nuisance, View
from ope_estimators.actions.weighting.weighted_mean import self_normalized_mean
from ope_estimators.density_ratio.sample_weights import SampleWeights

__all__ = ["Balanced"]


class Balanced(Estimator):
    """Base: the mean reward with fitted weights that sum to one; needs samples only.

    A subclass says which weights; equal settings share one fit.
    """

    @abstractmethod
    def weights_model(self) -> Nuisance[SampleWeights]:
        """Return the weights to be fitted."""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the weights; other estimators may share the fit."""
        self.weights_ = view.fitted(self.weights_model())
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the self-normalized mean, without a standard error: the weights are estimated.

        Raises
        ------
        PositivityViolation : all weights are zero.
        """
        fit = self.weights_
        facts: dict[str, Diagnostic] = {"mean_weight": float(fit.logged.mean())}
        facts |= {"negative_share": float((fit.logged < 0).mean()), **fit.diagnostics}
        value = self_normalized_mean(fit.logged, view.reward)
        if facts["negative_share"]:
            # Negative weights are no ratio of densities: boards of ratios leave them out.
            return Estimate(value, diagnostics=facts)
        return Estimate(
            value,
            weights=fit.logged,
            diagnostics=facts,
            target_weights=None if fit.target is None else np.maximum(fit.target, 0.0),
            weight_space="embedding",
        )
