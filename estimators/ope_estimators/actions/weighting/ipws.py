"""Self-normalized inverse propensity weighting."""

from __future__ import annotations

from dataclasses import replace

from ope_bench import Diagnostic, Estimate, FloatArray, LinearScore, View
from ope_estimators.actions.confounding import (
    HajekBounds,
    MarginalSensitivityBounds,
    percentile_ends,
)
from ope_estimators.actions.weighting.intervals import WeightIntervals
from ope_estimators.actions.weighting.ipw import ClippedWeights
from ope_estimators.actions.weighting.weighted_rows import WeightedRows

__all__ = ["IPWS"]


class IPWS(MarginalSensitivityBounds, WeightIntervals, ClippedWeights):
    """Logged rewards averaged with weights that sum to one.

        V̂ = sum_i w_i r_i / sum_i w_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    A ratio of two means: consistent, with a bias of order 1/n, within the range of the rewards,
    and shifted by c when all rewards are. Its variance is mostly, not always, below that of
    `IPW`. The standard error is the delta method's, times sqrt(k / (k - 1)) for k units (rows,
    where there are none); there is none where a single unit has weight.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little. Where π0 is 0 and π1 is not, it estimates the value
    of the target policy restricted to what is logged. All weights zero: PositivityViolation.

    Parameters
    ----------
    clip : largest weight; larger ones are cut, and the sum is that of the clipped weights. A
        number; ``root-n``, the square root of the number of units (rows, where there are none);
        ``mse``, ``slope`` or ``ocv`` to choose among 30 limits; None for no limit.
    interval : ``asymptotic``, ``empirical-likelihood``, ``guaranteed``, ``anytime`` or
        ``bootstrap``.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them: ``guaranteed`` needs a range, ``empirical-likelihood`` else takes that of the logs.
    level : of the interval.
    resamples : number of bootstrap samples.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    largest_unit : most rows of a unit, and upper_end : form of the upper end, of bets.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_calibration : of estimated ones: ``mixture``, or ``isotonic`` inverse weights.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.
    hidden_cause : strengths of a hidden cause whose bounds are diagnostics, see `HajekBounds`,
        without and with the sampling error; None for none. Of given propensities and rows that
        stand for one each.

    References
    ----------
    The self-normalized estimator for counterfactual learning (Swaminathan and Joachims, 2015).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IPWS(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    in_batches = True

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        """The estimate is the mean of weight times reward over the mean weight."""
        return LinearScore(weight=used, outcome=rows.outcome, normalized=True)

    def estimate(self, view: View) -> Estimate:
        """The estimate, with bounds under a hidden cause where these are asked for."""
        found = super().estimate(view)
        if self.hidden_cause is None or self._estimates or view.row_weight is not None:
            return found
        target = view.target_policy.probability(view.context, view.action)
        bounds = HajekBounds(target, view.propensity, view.reward)
        found = self._with_bounds(found, view, bounds)
        ends = percentile_ends(bounds, view, self.hidden_cause, self.level)
        facts: dict[str, Diagnostic] = dict(found.diagnostics)
        for strength, (low, high) in zip(self.hidden_cause, ends, strict=True):
            facts[f"hidden_cause_low_with_error[{strength:g}]"] = low
            facts[f"hidden_cause_high_with_error[{strength:g}]"] = high
        return replace(found, diagnostics=facts)
