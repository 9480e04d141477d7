"""Self-normalised inverse propensity weighting."""

from __future__ import annotations

from ope_estimators.baseline.ipw import IPW
from ope_estimators.baseline.weighted import SelfNormalized

__all__ = ["IPWS"]


class IPWS(SelfNormalized, IPW):
    """Logged rewards averaged with weights that sum to one.

        V̂ = sum_i w_i r_i / sum_i w_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    A ratio of two means: consistent, with a bias of order 1/n, within the range of the rewards,
    and shifted by c when all rewards are. Its variance is mostly, not always, below that of
    `IPW`. The standard error is the delta method's.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little. Where π0 is 0 and π1 is not, it estimates the value
    of the target policy restricted to what is logged. All weights zero: PositivityViolation.

    Parameters
    ----------
    clip : largest weight; larger ones are cut.

    References
    ----------
    The self-normalized estimator for counterfactual learning (Swaminathan and Joachims, 2015).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IPWS(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """
