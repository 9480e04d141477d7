"""The doubly robust estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Ge, Gt

from ope_bench.data import Estimate
from ope_bench.view import Access, View
from ope_estimators.baseline.dm import DM
from ope_estimators.baseline.weighting import clipped, standard_error
from ope_estimators.nuisance.features import ActionFeaturesName
from ope_estimators.nuisance.learners import RegressorName

__all__ = ["DR"]


class DR(DM):
    """The direct method plus importance-weighted residuals of its model.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + w_i (r_i - q̂(x_i, a_i)) ],
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    q̂ at row i comes from a model that has not seen the row's fold, in the sum over actions as in
    the residual: given the other folds the terms of a fold are then independent and unbiased
    whatever q̂, and their spread gives the standard error.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: support is missing: the bias is E sum_a 1{π0(a|x) = 0} π1(a|x) (q̂ - q)(x, a).
    Large weights carry the residuals' variance.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal`` or ``embedding``; as for `DM`.
    cross_fit : number of folds; 1 fits in-sample, which shrinks residuals and standard error.
    clip : largest weight of a residual; larger ones are cut.

    References
    ----------
    Doubly robust policy evaluation and learning (Dudík, Langford and Li, 2011). Double/debiased
    machine learning for treatment and structural parameters (Chernozhukov et al., 2018), for
    cross-fitting.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(DR("ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def __init__(
        self,
        regressor: RegressorName = "gbm",
        regressor_params: Mapping[str, Any] | None = None,
        action_features: ActionFeaturesName = "one-hot",
        cross_fit: Annotated[int, Ge(1)] = 5,
        clip: Annotated[float, Gt(0)] | None = None,
    ) -> None:
        super().__init__(regressor, regressor_params, action_features, cross_fit)
        self.clip = clip

    def estimate(self, view: View) -> Estimate:
        """The mean of the doubly robust terms and its standard error."""
        policy = view.target_policy
        ratio = policy.probability(view.context, view.action) / view.propensity
        weights, diagnostics = clipped(ratio, self.clip)
        residual = view.reward - self.reward_.logged(view.context, view.action)
        terms = self.reward_.logged_expected(policy, view.context) + weights * residual
        value, error = float(terms.mean()), standard_error(terms)
        return Estimate(value, error, weights, diagnostics, weight_space="action")
