"""Riesz regression: weights by least squares."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge

from ope_bench import Nuisance
from ope_estimators.density_ratio.basis import Basis
from ope_estimators.density_ratio.riesz import LeastSquaresRatio
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.embedded.balancing.balanced import Balanced

__all__ = ["Riesz"]


class Riesz(Balanced):
    """Logged rewards averaged with the ratio of embedding densities, fitted by least squares.

        V̂ = sum_i α_i r_i / sum_i α_i,   α = φ'θ,   θ = (mean_0 φ φ' + ρ I)⁻¹ mean_1 φ

    φ are functions of embedding and context, mean_0 and mean_1 the means over the logged and the
    target sample. θ minimizes mean_0 α² - 2 mean_1 α + ρ |θ|², the squared distance of α from the
    ratio of densities. With ρ = 0 the weighted logs have the target sample's means of all φ that
    are not 0 in all logs: the estimate is right for every reward function that is linear in φ,
    right ratio or not. Weights may be negative; they are then not reported, and ``negative_share``
    says how many are. Without ``linear`` it is unconstrained least-squares importance fitting.

    Assumptions: rewards depend on the action through its embedding only; every embedding of the
    target policy has positive density under the logging policy; the ratio or the reward is near to
    linear in φ.
    Fails when: neither the ratio nor the reward is near to linear in φ. With a small ρ and few
    rows the weights fit noise.

    Parameters
    ----------
    basis : ``linear``, columns of embedding and context; ``fourier``, 200 random cosines;
        ``nystroem``, a Gaussian kernel around 200 rows; ``forest``, leaves of random trees.
    penalty : ρ; None takes the value with the least loss on held-out units, without any truth.

    References
    ----------
    Automatic debiased machine learning of causal and structural effects (Chernozhukov, Newey and
    Singh, 2022), Riesz regression. A least-squares approach to direct importance estimation
    (Kanamori, Hido and Sugiyama, 2009), the same for densities.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(Riesz(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    basis: Basis = "nystroem"
    penalty: Annotated[float, Ge(0)] | None = None

    def weights_model(self) -> Nuisance[SampleWeights]:
        """Return least squares for the ratio itself."""
        return LeastSquaresRatio(self.basis, self.penalty, 0.0)
