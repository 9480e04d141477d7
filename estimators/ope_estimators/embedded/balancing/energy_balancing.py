"""Energy balancing."""

from __future__ import annotations

from ope_bench import Nuisance
from ope_estimators.density_ratio.matching import EnergyWeights
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.embedded.balancing.balanced import Balanced

__all__ = ["EnergyBalancing"]


class EnergyBalancing(Balanced):
    """Logged rewards averaged with weights of the least energy distance to the target sample.

        V̂ = (1/n) sum_i α_i r_i,
        α = argmin 2 mean_i mean_j α_i |x_i - t_j| - mean_i mean_k α_i α_k |x_i - x_k|

    x are the logged rows of embedding and context, t the target rows, each column divided by its
    standard deviation over both samples; α >= 0 and sum α = n. A descent of at most 2,000 steps
    from equal weights solves it. There is nothing to choose. With more than 4,000 rows in a sample
    steps use the projection of |x| + |t| - |x - t| on 600 logged rows and, of what that leaves
    over, the diagonal; four passes over all pairs then bring the weights near the exact ones.

    Assumptions: rewards depend on the action through its embedding only; every embedding of the
    target policy has positive density under the logging policy.
    Fails when: embedding and context have many dimensions: distances between all rows are then
    alike, and weights stay near one.

    Raises
    ------
    UnavailableError : more than 100,000 rows in a sample.

    References
    ----------
    Energy balancing of covariate distributions (Huling and Mak, 2024).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(EnergyBalancing(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    def weights_model(self) -> Nuisance[SampleWeights]:
        """Return the weights of the least energy distance."""
        return EnergyWeights()
