"""Density ratios by least squares: Riesz regression, uLSIF and its relative form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench import FloatArray, IntArray, View
from ope_estimators.density_ratio.basis import Basis, basis_functions, standardized
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.learning.folds import folds

__all__ = ["LeastSquaresRatio"]

PENALTIES = 10.0 ** np.arange(-6, 2)
"""Among which held-out loss chooses."""

FOLDS = 5


@dataclass(frozen=True)
class LeastSquaresRatio:
    """α = φ'θ, the least squares fit of p1 / (β p1 + (1 - β) p0).

        θ = (β H1 + (1 - β) H0 + ρ I)⁻¹ h,   Hj = mean_j φ φ',   h = mean_1 φ

    It minimizes β mean_1 α² + (1 - β) mean_0 α² - 2 mean_1 α + ρ |θ|²; 0 is the logged sample, 1
    the target sample. The penalty with the least loss on held-out units, without its last term,
    is taken where none is given.

    Parameters
    ----------
    basis : φ.
    penalty : ρ; None chooses.
    beta : β in [0, 1); 0 is the ratio itself, else no ratio exceeds 1/β.
    """

    basis: Basis
    penalty: float | None
    beta: float

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> SampleWeights:
        """Return the weights at both samples' rows, fitted on all of them."""
        return self.weigh(view, *standardized(view), rng)

    def weigh(
        self, view: View, logged: FloatArray, target: FloatArray, rng: np.random.Generator
    ) -> SampleWeights:
        """Fit the weights on given features, (n, d) and (m, d)."""
        logged, target = basis_functions(self.basis, logged, target, rng)
        penalty = self.penalty
        if penalty is None:
            penalty = self._chosen(logged, target, *folds(view, FOLDS, rng))
        theta = self.solve(*self._moments(logged, target), penalty)
        return SampleWeights(logged @ theta, target @ theta, {"penalty": float(penalty)})

    def _moments(self, logged: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return β H1 + (1 - β) H0 and h of a basis at both samples, (n, k) and (m, k)."""
        gram: FloatArray = (1.0 - self.beta) * logged.T @ logged / len(logged)
        if self.beta > 0:
            gram += self.beta * target.T @ target / len(target)
        mean: FloatArray = target.mean(axis=0)
        return gram, mean

    @staticmethod
    def solve(gram: FloatArray, mean: FloatArray, penalty: float) -> FloatArray:
        """Return θ for the moments of a basis, (k, k) and (k,): (k,)."""
        penalized = gram.copy()
        penalized[np.diag_indices_from(gram)] += penalty
        # Least squares, since without a penalty indicators may be sums of others.
        theta, *_ = np.linalg.lstsq(penalized, mean, rcond=None)
        return np.asarray(theta, dtype=np.float64)

    def _chosen(
        self, logged: FloatArray, target: FloatArray, fold: IntArray, other: IntArray
    ) -> float:
        loss = np.zeros(len(PENALTIES))
        for k in np.unique(fold):
            train, test = logged[fold != k], logged[fold == k]
            train_target, test_target = target[other != k], target[other == k]
            if not (len(train) and len(train_target) and len(test_target)):
                continue
            moments = self._moments(train, train_target)
            for j, penalty in enumerate(PENALTIES):
                theta = self.solve(*moments, float(penalty))
                at_logged, at_target = test @ theta, test_target @ theta
                loss[j] += (1.0 - self.beta) * np.square(at_logged).mean()
                loss[j] += self.beta * np.square(at_target).mean() - 2.0 * at_target.mean()
        return float(PENALTIES[int(np.argmin(loss))])
