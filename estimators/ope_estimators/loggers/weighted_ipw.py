"""Estimates from each of several loggers, averaged by their precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ope_bench import STANDARD_ERROR_WITHHELD, Access, Estimate, View, standard_error
from ope_estimators.loggers.stratified import Stratified

__all__ = ["WeightedIPW"]

ESTIMATED = "shares of loggers are estimated from the same rows, and biased by their rare rewards"


class WeightedIPW(Stratified):
    """The loggers' own `IPW` estimates, with shares inversely to their variances.

        V̂ = sum_k λ_k V̂_k,   λ_k ∝ 1 / var(V̂_k),   V̂_k = mean over logger k of π1/π0k r

    A logger far from the target policy counts little. Shares are estimated from the same rows: a
    logger whose sample missed its rare, large terms has too small a variance and too large a
    share, which biases the estimate toward it. Where a variance is 0, shares are those of rows.
    No standard error of several loggers, since shares depend on the rows: that of given shares
    held the value far too rarely in small logs (``results/performance/standard-errors.md``).

    Assumptions: known propensities; every logger has every action of the target policy.
    Fails when: the weights of a logger are heavy-tailed or it lacks an action.

    References
    ----------
    Effective evaluation using logged bandit feedback from multiple loggers (Agarwal, Basu,
    Schnabel and Joachims, 2017), section 5, with estimated variances.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(WeightedIPW(), "linear-bandit[loggers=[[-1,1,2]]]", replicates=1)[0]
    >>> 0 < record.diagnostics["largest_share"] < 1
    True
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY | Access.STRATUM

    def estimate(self, view: View) -> Estimate:
        """Return the weighted mean of the loggers' estimates."""
        weight = view.target_policy.probability(view.context, view.action) / view.propensity
        strata, row, count = np.unique(view.stratum, return_inverse=True, return_counts=True)
        parts = [(weight * view.reward)[row == k] for k in range(len(strata))]
        units = [view.unit[row == k] for k in range(len(strata))]
        errors = [standard_error(*pair) for pair in zip(parts, units, strict=True)]
        if all(errors):
            precision = np.array([1.0 / error**2 for error in errors if error])
            share = precision / precision.sum()
        else:
            share = count / view.n
        scaled = weight * (share * view.n / count)[row]
        found = self._estimate(view, scaled, scaled * view.reward)
        facts = {**found.diagnostics, "largest_share": float(share.max())}
        if len(strata) == 1:
            return replace(found, diagnostics=facts)
        facts[STANDARD_ERROR_WITHHELD] = ESTIMATED
        return replace(found, standard_error=None, diagnostics=facts)
