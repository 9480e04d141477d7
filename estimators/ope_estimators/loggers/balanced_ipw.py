"""Importance weighting against the mixture of several loggers."""

from __future__ import annotations

from ope_bench import Estimate, View
from ope_estimators.loggers.stratified import Stratified

__all__ = ["BalancedIPW"]


class BalancedIPW(Stratified):
    """Logged rewards weighted by the target policy over the mean of all loggers' policies.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(a_i|x_i) / sum_k (n_k/n) π0k(a_i|x_i)

    n_k of the n rows are logger k's. An action that one logger rarely takes has no large weight
    where another takes it often: the variance is never above that of `IPW` with each row's own
    propensity. Equal loggers give `IPW`.

    Assumptions: the policies of all loggers are known; the mixture has every action of the target.
    Fails when: no logger takes an action of the target policy: missing support, as of `IPW`.

    References
    ----------
    Effective evaluation using logged bandit feedback from multiple loggers (Agarwal, Basu,
    Schnabel and Joachims, 2017), equation 5.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(BalancedIPW(), "linear-bandit[loggers=[[-1,1,2]]]", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    def estimate(self, view: View) -> Estimate:
        """Return the mean of weighted rewards, with the standard error by loggers."""
        weight = self._balanced_weight(view)
        return self._estimate(view, weight, weight * view.reward)
