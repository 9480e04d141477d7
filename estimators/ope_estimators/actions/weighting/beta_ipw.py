"""Importance weighting with the baseline of least variance."""

from __future__ import annotations

from ope_bench import FloatArray, LinearScore
from ope_estimators.actions.weighting.ipw import ActionWeighting
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.propensity import EstimatedPropensity

__all__ = ["BetaIPW"]


class BetaIPW(EstimatedPropensity, ActionWeighting):
    """Weighted rewards around the constant that makes their variance least: a baseline.

        V̂ = β + (1/n) sum_i w_i (r_i - β),   β = sum_i (w_i² - w_i) r_i / sum_i (w_i² - w_i),
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    Any fixed β leaves importance weighting unbiased; the estimated one costs a bias of order
    1/n. Rewards plus c give the estimate plus c, rewards times c give c times the estimate, and
    equal policies the mean reward. The denominator of β estimates the variance of the weights;
    where it is not positive, as in logs that miss a rare action, the estimate is that of `IPWS`
    and the diagnostic ``fallback`` says so.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little: β is then made by a few rows, and where the
    denominator is positive but small, the estimate can leave the range of the rewards. Missing
    support: the mean weight is below 1, and the missing part is filled by β. All weights zero:
    PositivityViolation.

    Parameters
    ----------
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Optimal baseline corrections for off-policy contextual bandits (Gupta, Jeunen, Oosterhuis and
    de Rijke, 2024), equation 16.

    Note: the released code has no fallback but replaces a denominator below 1e-11 by 1e-11: a
    negative one then gives an estimate of the order of -1e9.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(BetaIPW(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return LinearScore(weight=used, outcome=rows.outcome, control=used**2 - used)
