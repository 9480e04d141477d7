"""Kernel smoothing of inverse propensity weighting."""

from __future__ import annotations

from ope_estimators.continuous.kernel_weighted import KernelWeighted

__all__ = ["KernelIPW"]


class KernelIPW(KernelWeighted):
    """Logged rewards weighted by how near the logged action is to the target policy's action.

        V̂ = (1/n) sum_i K((τ(x_i) - a_i) / h) r_i / (h π0(a_i|x_i))

    τ(x) is the target policy's action; of a random target policy the mean over 16 draws in each
    logged context is taken. Unlike a ratio of densities, the weights exist for a deterministic
    target policy. For a small h the bias is h² m E[∂²q(x, τ(x))/∂a²] / 2, m being the kernel's
    second moment (1 for ``rbf``, 1/5 for ``epanechnikov``, 1/6 for ``triangular``, 1 - 8/π² for
    ``cosine``): exactly -h² m for a reward -(a - b)² + c. The variance grows as 1/h. Rewards times
    c give c times the estimate; rewards plus c do not give the estimate plus c.

    Assumptions: continuous actions of one dimension; known propensities, which are densities;
    π0(a|x) > 0 around τ(x); the reward is smooth in the action.
    Fails when: the reward bends within a bandwidth: the bias is that of smoothing, and the
    standard error says nothing of it; τ(x) is at the edge of the support of π0, where a part of
    the kernel lies beyond; logged actions near τ(x) are rare: the variance is that of the
    weights. No logged action within reach of the kernel: PositivityViolation.

    Parameters
    ----------
    kernel : ``rbf``, the normal density; up to a distance of h ``epanechnikov``, a parabola,
        ``triangular`` or ``cosine``.
    bandwidth : h in the unit of the actions; ``slope`` chooses among 2^-1, ..., 2^-7, in units
        of the standard deviation of the logged actions, and never one whose weights are worth
        fewer than two units while another's are worth more; ``silverman`` is the rule of thumb
        s (4 / (3n))^(1/5) for the density of logged actions.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.

    Raises
    ------
    UnavailableError : actions are discrete.

    References
    ----------
    Policy evaluation and optimization with continuous treatments (Kallus and Zhou, 2018), section
    3. Adaptive estimator selection for off-policy evaluation (Su, Srinath and Krishnamurthy,
    2020), section 4, for ``slope``, there with actions in [0, 1].

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> from ope_environments.gaussian.linear_gaussian import LinearGaussian
    >>> one_action = LinearGaussian(target_std=0.0)
    >>> record = evaluate(KernelIPW(), one_action, replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.2
    True
    """
