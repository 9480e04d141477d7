"""Density ratios of least Kullback-Leibler divergence."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Gt

from ope_bench import Nuisance
from ope_estimators.density_ratio.kliep import KLIEPRatio
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.embedded.balancing.balanced import Balanced

__all__ = ["KLIEP"]


class KLIEP(Balanced):
    """Logged rewards averaged with the density ratio of the largest target likelihood.

        V̂ = sum_i α_i r_i / sum_i α_i,   α = argmax mean_1 ln α   with mean_0 α = 1

    α is a sum of Gaussian kernels around up to 100 target rows and a constant, with coefficients
    that are not negative; mean_0 and mean_1 are means over the logged and the target sample.

    Assumptions: rewards depend on the action through its embedding only; every embedding of the
    target policy has positive density under the logging policy.
    Fails when: embedding and context have many dimensions: kernels around 100 rows are then either
    flat or empty.

    Parameters
    ----------
    bandwidth : of the kernels in median distances; None takes, of 1/4, 1/2, 1 and 2, that with the
        largest likelihood of held-out target rows.

    References
    ----------
    Direct importance estimation for covariate shift adaptation (Sugiyama, Suzuki, Nakajima,
    Kashima, von Bünau and Kawanabe, 2008).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(KLIEP(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    bandwidth: Annotated[float, Gt(0)] | None = None

    def weights_model(self) -> Nuisance[SampleWeights]:
        """Return the ratio of the largest likelihood."""
        return KLIEPRatio(self.bandwidth)
