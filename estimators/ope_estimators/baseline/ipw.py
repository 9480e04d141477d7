"""Inverse propensity weighting."""

from __future__ import annotations

from ope_bench.arrays import FloatArray
from ope_bench.view import Access, View
from ope_estimators.baseline.weighted import Weighted

__all__ = ["IPW"]


class IPW(Weighted):
    """Logged rewards weighted by how much more often the target policy takes the action.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    With continuous actions the probabilities are densities.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little: the variance is that of the weights. Where π0 is 0
    and π1 is not, it stays finite and is off by -E sum_a 1{π0(a|x) = 0} π1(a|x) q(x, a).
    Continuous actions and all weights zero: PositivityViolation.

    Parameters
    ----------
    clip : largest weight; larger ones are cut, which trades variance for bias towards zero.

    References
    ----------
    A generalization of sampling without replacement from a finite universe (Horvitz and
    Thompson, 1952). Truncated importance sampling (Ionides, 2008), for ``clip``.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IPW(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def _ratio(self, view: View) -> FloatArray:
        return view.target_policy.probability(view.context, view.action) / view.propensity
