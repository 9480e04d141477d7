"""Kernel mean matching."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Gt

from ope_bench import Nuisance
from ope_estimators.density_ratio.matching import KernelMeanWeights
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.embedded.balancing.balanced import Balanced

__all__ = ["KMM"]


class KMM(Balanced):
    """Logged rewards averaged with weights that match the kernel means of both samples.

        V̂ = sum_i α_i r_i / sum_i α_i,   α = argmin |mean_0 α k(x, .) - mean_1 k(x, .)|²

    k is a Gaussian kernel of embedding and context, each column divided by its standard deviation
    over both samples, with the median distance as width; mean_0 and mean_1 are means over the
    logged and the target sample. 0 <= α <= B and |sum α - n| <= n (√n - 1) / √n. The estimate is
    not that of the minimum but of a descent of at most 2,000 steps from equal weights: the
    stopping rule is part of it, because the minimum itself follows the scatter of the samples.
    With more than 4,000 rows in a sample it is the minimum for the projection of k on 1,200 logged
    rows and, of what that leaves over, the diagonal; a ridge of 3e-6 of the largest eigenvalue
    leaves weights about as smooth as those steps do.

    Assumptions: rewards depend on the action through its embedding only; every embedding of the
    target policy has positive density under the logging policy; rewards are smooth at the kernel's
    width.
    Fails when: rewards vary within the width of the kernel: the means match and the rewards do
    not.

    Parameters
    ----------
    bound : B, the largest weight.

    Raises
    ------
    UnavailableError : more than 100,000 rows in a sample.

    References
    ----------
    Correcting sample selection bias by unlabeled data (Huang, Smola, Gretton, Borgwardt and
    Schölkopf, 2006).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(KMM(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    bound: Annotated[float, Gt(1)] = 1000.0

    def weights_model(self) -> Nuisance[SampleWeights]:
        """Return the weights of the least kernel distance."""
        return KernelMeanWeights(self.bound)
