"""Entropy balancing."""

from __future__ import annotations

from typing import Literal

from ope_bench import Nuisance
from ope_estimators.density_ratio.entropy import EntropyWeights
from ope_estimators.density_ratio.sample_weights import SampleWeights
from ope_estimators.embedded.balancing.balanced import Balanced

__all__ = ["EntropyBalancing"]


class EntropyBalancing(Balanced):
    """Logged rewards averaged with the most even weights that balance means exactly.

        V̂ = sum_i α_i r_i / sum_i α_i,   α_i = exp(θ'φ_i),   sum_i α_i φ_i / sum_i α_i = mean_1 φ

    φ are the columns of embedding and context, and with two moments their squares and products;
    mean_1 is the mean over the target sample. The estimate is right for rewards that are linear in
    φ, and for any where the logarithm of the density ratio is.

    Assumptions: rewards depend on the action through its embedding only; every embedding of the
    target policy has positive density under the logging policy; the log-ratio or the reward is
    linear in φ.
    Fails when: neither is linear in φ. The target sample's means lie outside of what was logged,
    as with many functions and few rows: PositivityViolation.

    Parameters
    ----------
    moments : 1 for means, 2 for means, squares and products.

    Raises
    ------
    PositivityViolation : no weights balance the means.

    References
    ----------
    Entropy balancing for causal effects (Hainmueller, 2012).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(EntropyBalancing(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.5
    True
    """

    moments: Literal[1, 2] = 1

    def weights_model(self) -> Nuisance[SampleWeights]:
        """Return the weights of the largest entropy."""
        return EntropyWeights(self.moments)
