"""The self-normalized doubly robust estimator."""

from __future__ import annotations

from ope_bench import FloatArray, LinearScore
from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.actions.weighting.intervals import IntervalOptions
from ope_estimators.actions.weighting.weighted_rows import WeightedRows

__all__ = ["SNDR"]


class SNDR(IntervalOptions, ResidualWeighted):
    """The direct method plus residuals of its model, averaged with weights that sum to one.

        V̂ = (1/n) sum_i sum_a π1(a|x_i) q̂(x_i, a) + sum_i w_i (r_i - q̂(x_i, a_i)) / sum_i w_i,
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    With equal weights it is the direct method plus the mean residual. It differs from `DR` by
    the mean residual times what the mean weight lacks of one: a bias of order 1/n, and less
    variance where residuals have a mean far from 0, as those of a poor model have. The standard
    error is the delta method's; there is none where a single unit has weight.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: support is missing: residuals of unsupported actions are taken to be as those of
    the others. Few rows carry the weights: the variance is theirs. All weights zero:
    PositivityViolation.

    Parameters
    ----------
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    interval : ``bootstrap``, an interval beside the standard error, with all models fitted anew on
        each resample of units; ``asymptotic``, none.
    level : of the bootstrap interval.
    resamples : number of bootstrap samples.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Data-efficient off-policy policy evaluation for reinforcement learning (Thomas and Brunskill,
    2016), weighted doubly robust.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(SNDR("ridge"), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=True)
