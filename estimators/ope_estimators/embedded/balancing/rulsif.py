"""Relative density ratios by least squares."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from annotated_types import Ge, Gt, Lt

from ope_bench import Nuisance, View
from ope_estimators.density_ratio.basis import Basis
from ope_estimators.density_ratio.riesz import LeastSquaresRatio
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.embedded.balancing.balanced import Balanced

__all__ = ["RuLSIF"]


class RuLSIF(Balanced):
    """Logged rewards averaged with relative density ratios, which are bounded.

        V̂ = sum_i α_i r_i / sum_i α_i,   α = φ'θ,   θ = (β H1 + (1 - β) H0 + ρ I)⁻¹ mean_1 φ

    Hj is the mean of φ φ' over the logged (0) or the target sample (1). α estimates
    p1 / (β p1 + (1 - β) p0), which is at most 1/β, and is held within [0, 1/β].

    Assumptions: rewards depend on the action through its embedding only; every embedding of the
    target policy has positive density under the logging policy; β is small.
    Fails when: the ratio of densities is not bounded by about 1/β: the relative ratio is another
    function, and the bias is toward the mean logged reward.

    Parameters
    ----------
    beta : β in (0, 1), the share of the target density in the denominator.
    basis : ``linear``, columns of embedding and context; ``fourier``, 200 random cosines;
        ``nystroem``, a Gaussian kernel around 200 rows; ``forest``, leaves of random trees.
    penalty : ρ; None takes the value with the least loss on held-out units, without any truth.

    References
    ----------
    Relative density-ratio estimation for robust distribution comparison (Yamada, Suzuki,
    Kanamori, Hachiya and Sugiyama, 2013).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(RuLSIF(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    beta: Annotated[float, Gt(0), Lt(1)] = 0.1
    basis: Basis = "nystroem"
    penalty: Annotated[float, Ge(0)] | None = None

    def weights_model(self) -> Nuisance[SampleWeights]:
        """Return least squares for the relative ratio."""
        return LeastSquaresRatio(self.basis, self.penalty, self.beta)

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the ratio and hold it within its bounds."""
        super().fit(view, rng=rng, device=device)
        fit, most = self.weights_, 1.0 / self.beta
        target = None if fit.target is None else np.clip(fit.target, 0.0, most)
        self.weights_ = SampleWeights(np.clip(fit.logged, 0.0, most), target, fit.diagnostics)
        return self
