"""Base of the estimators that know which of several loggers chose each row."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import Access, Estimate, Estimator, FloatArray, View, standard_error

__all__ = ["Stratified"]


class Stratified(Estimator):
    """Base: means of terms whose standard error counts the spread within each logger's rows."""

    @property
    def access(self) -> Access:
        """Each row's logger, and the policies of all."""
        return Access.STRATUM | Access.STRATUM_POLICIES | Access.TARGET_POLICY

    @property
    def action_masks(self) -> bool:
        """The policies respect them."""
        return True

    def _balanced_weight(self, view: View) -> FloatArray:
        """Return π1 over the mean of the loggers' policies at the logged actions: (n,)."""
        share = np.bincount(view.stratum, minlength=len(view.stratum_policies)) / view.n
        mixture = np.zeros(view.n)
        for part, policy in zip(share, view.stratum_policies, strict=True):
            if part > 0:
                mixture += part * policy.probability(view.context, view.action)
        weight: FloatArray = view.target_policy.probability(view.context, view.action) / mixture
        return weight

    def _estimate(self, view: View, weight: FloatArray, terms: FloatArray) -> Estimate:
        """Return the mean of the terms; rows of a logger have a mean of their own."""
        variance, known = 0.0, True
        for stratum in np.unique(view.stratum):
            rows = view.stratum == stratum
            error = standard_error(terms[rows], view.unit[rows])
            known &= error is not None
            variance += (rows.mean() * (error or 0.0)) ** 2
        return Estimate(
            float(terms.mean()),
            math.sqrt(variance) if known else None,
            weight,
            {"mean_weight": float(weight.mean()), "loggers": len(view.stratum_policies)}
            if Access.STRATUM_POLICIES in self.access
            else {"mean_weight": float(weight.mean())},
            weight_space="action",
            terms=terms,
        )
