"""Kernel smoothing of self-normalized inverse propensity weighting."""

from __future__ import annotations

from ope_bench import FloatArray, LinearScore
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.continuous.kernel_weighted import KernelWeighted

__all__ = ["KernelIPWS"]


class KernelIPWS(KernelWeighted):
    """`KernelIPW` with weights that sum to one.

        V̂ = sum_i u_i r_i / sum_i u_i,   u_i = K((τ(x_i) - a_i) / h) / (h π0(a_i|x_i))

    τ(x) is the target policy's action; of a random target policy the mean over 16 draws in each
    logged context is taken. Within the range of the rewards, shifted by c when all rewards are,
    and scaled with them. The bias of smoothing is that of `KernelIPW`. At the edge of the support
    of π0 the sum makes up for the part of the kernel that lies beyond, on average over contexts.

    Assumptions: continuous actions of one dimension; known propensities, which are densities;
    π0(a|x) > 0 around τ(x); the reward is smooth in the action.
    Fails when: the reward bends within a bandwidth, and the standard error says nothing of the
    bias; logged actions near τ(x) are rare: contexts where there are some then stand for all. No
    logged action within reach of the kernel: PositivityViolation.

    Parameters
    ----------
    kernel : ``rbf``, ``epanechnikov``, ``triangular`` or ``cosine``; as for `KernelIPW`.
    bandwidth : h in the unit of the actions, ``slope`` or ``silverman``; as for `KernelIPW`.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.

    Raises
    ------
    UnavailableError : actions are discrete.

    References
    ----------
    Policy evaluation and optimization with continuous treatments (Kallus and Zhou, 2018), section
    3, the self-normalized form.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> from ope_environments.gaussian.linear_gaussian import LinearGaussian
    >>> one_action = LinearGaussian(target_std=0.0)
    >>> record = evaluate(KernelIPWS(), one_action, replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 0.2
    True
    """

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=True)
