"""The logging average: what the logs earned, whatever the target policy."""

from __future__ import annotations

from ope_bench import Estimate, Estimator, View, weighted_terms

__all__ = ["LoggingAverage"]


class LoggingAverage(Estimator):
    """The mean logged reward, the yardstick that every estimator must beat.

        V̂ = (1/n) sum_i r_i

    Assumptions: the target policy is worth what the logging policy is.
    Fails when: the two policies have different values; the bias is V(π0) - V(π1). No standard
    error: the spread of the logged rewards says nothing of that bias.

    References
    ----------
    Off-policy evaluation for large action spaces via embeddings (Saito and Joachims, 2022): with
    one embedding for all actions, their estimator is this one.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(LoggingAverage(), "saito-toy", replicates=1)[0]
    >>> record.estimate == record.logging_average
    True
    """

    row_weights = True
    action_masks = True

    def estimate(self, view: View) -> Estimate:
        """Return the mean logged reward."""
        terms = weighted_terms(view.reward, view.row_weight)
        return Estimate(float(terms.mean()), terms=terms)
