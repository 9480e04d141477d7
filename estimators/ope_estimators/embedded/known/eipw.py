"""Inverse propensity weighting of embeddings with exact weights."""

from __future__ import annotations

from ope_bench import Access, DataError, FloatArray, View
from ope_estimators.actions.weighting.intervals import IntervalOptions
from ope_estimators.embedded.embedding_weighting import EmbeddingWeighting

__all__ = ["EIPW"]


class EIPW(IntervalOptions, EmbeddingWeighting):
    """Inverse propensity weighting with the ratio of the policies' embedding densities.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(g_i|x_i) / π0(g_i|x_i),
        πj(g|x) = sum_a πj(a|x) p(g|a), joint over the embedding's dimensions

    w(x, g) is the mean of w(x, a) given x and g, so its variance is never larger.

    Assumptions: the reward depends on the action only through its embedding (and the context);
    both policies and p(g|a) are known; π0(g|x) > 0 wherever π1(g|x) > 0, which is weaker than
    support of actions. Fails when: actions with similar embeddings have different rewards: the
    bias is the part of q(x, a) that the embedding does not determine.

    Parameters
    ----------
    clip : upper bound of the weights; None for none.
    interval : ``bootstrap``, an interval beside the standard error, of resampled units;
        ``asymptotic``, none.
    level : of the bootstrap interval.
    resamples : number of bootstrap samples.

    Raises
    ------
    DataError : the logging policy's marginal of a logged embedding is 0.

    References
    ----------
    Off-policy evaluation for large action spaces via embeddings (Saito and Joachims, 2022), the
    MIPS estimator. Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022),
    the EIPW estimator.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(EIPW(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION
    row_weights = True

    def _ratio(self, view: View) -> FloatArray:
        embeddings = view.embedding_distribution
        logging = embeddings.marginal(view.logging_policy, view.context, view.embedding)
        if (logging <= 0).any():
            row = int(logging.argmin())
            msg = f"the logging policy's marginal of embedding[{row}] is 0, but it was logged"
            raise DataError(msg)
        target = embeddings.marginal(view.target_policy, view.context, view.embedding)
        return target / logging
