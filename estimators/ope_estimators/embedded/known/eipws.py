"""Self-normalized weighting of embeddings with exact weights."""

from __future__ import annotations

from ope_estimators.embedded.known.eipw import EIPW

__all__ = ["EIPWS"]


class EIPWS(EIPW):
    """`EIPW` with weights that sum to one.

        V̂ = sum_i w_i r_i / sum_i w_i,   w_i = π1(g_i|x_i) / π0(g_i|x_i)

    Consistent with a bias of order 1/n, within the range of the rewards, and equivariant to shifts
    of the rewards. The standard error is that of the delta method; there is none where a
    single unit has weight.

    Assumptions: as for `EIPW`.
    Fails when: as `EIPW`. All weights zero: PositivityViolation.

    Parameters
    ----------
    clip : upper bound of the weights; None for none.
    interval, level, resamples : as for `EIPW`.

    References
    ----------
    Off-policy evaluation for large action spaces via embeddings (Saito and Joachims, 2022), for
    the weights. The self-normalized estimator for counterfactual learning (Swaminathan and
    Joachims, 2015).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(EIPWS(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    normalized = True
