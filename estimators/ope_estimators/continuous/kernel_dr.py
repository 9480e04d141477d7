"""Kernel smoothing of the doubly robust estimator."""

from __future__ import annotations

from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.continuous.kernel_weighted import KernelWeighted

__all__ = ["KernelDR"]


class KernelDR(ResidualWeighted, KernelWeighted):
    """A reward model at the target policy's actions, and kernel-weighted residuals of it.

        V̂ = (1/n) sum_i [ E_{τ ~ π1(.|x_i)} q̂(x_i, τ) + u_i (r_i - q̂(x_i, a_i)) ],
        u_i = K((τ(x_i) - a_i) / h) / (h π0(a_i|x_i))

    q̂ at row i comes from a model that has not seen the row's fold. Only what q̂ leaves over is
    smoothed: the bias is h² m E[∂²(q - q̂)(x, τ(x))/∂a²] / 2 for a small h, m being the kernel's
    second moment, plus the error of q̂ times that of the weights' mean.

    Assumptions: continuous actions of one dimension; known propensities, which are densities;
    π0(a|x) > 0 around τ(x); q - q̂ is smooth in the action.
    Fails when: q̂ is a step function, as trees are, and h is smaller than the steps: residuals
    then bend within a bandwidth; logged actions near τ(x) are rare: the variance is that of the
    weights. With no logged action within reach it is the direct method, ``mean_weight`` is 0, and
    the standard error is withheld.

    Parameters
    ----------
    regressor : a regressor's name.
    regressor_params : its parameters.
    action_features : without effect: continuous actions are their own feature.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    kernel : ``rbf``, ``epanechnikov``, ``triangular`` or ``cosine``; as for `KernelIPW`.
    bandwidth : h in the unit of the actions, ``slope`` or ``silverman``; as for `KernelIPW`.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity, propensity_classifier, propensity_folds : ``given``; others are for finitely many
        actions.

    Raises
    ------
    UnavailableError : actions are discrete.

    References
    ----------
    Policy evaluation and optimization with continuous treatments (Kallus and Zhou, 2018), section
    3.3, doubly robust estimation.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> from ope_environments.gaussian.linear_gaussian import LinearGaussian
    >>> one_action = LinearGaussian(target_std=0.0)
    >>> quadratic = KernelDR("ridge", regressor_params={"degree": 2})
    >>> record = evaluate(quadratic, one_action, replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.1
    True
    """

    in_batches = False
    row_weights = False
