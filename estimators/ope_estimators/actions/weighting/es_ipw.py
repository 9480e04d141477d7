"""Importance weighting with exponential smoothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le

from ope_bench import FloatArray, LinearScore
from ope_estimators.actions.weighting.ipw import GRID, TransformedWeights
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.propensity import EstimatedPropensity
from ope_estimators.tuning.rules import DataRule

__all__ = ["ESIPW"]


class ESIPW(EstimatedPropensity, TransformedWeights):
    """Logged rewards weighted with a power of the propensity or of the weight: smoothing.

        V̂ = (1/n) sum_i u_i r_i,   u_i = π1(a_i|x_i) / π0(a_i|x_i)^α   or   (π1 / π0)^α

    α = 1 is `IPW`. With α = 0 the form ``policy`` is the mean of π1(a_i|x_i) r_i, which is wrong
    in scale, and ``ratio`` the mean reward where w > 0. Rewards times c give c times the estimate;
    with ``normalize`` rewards plus c also give the estimate plus c.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: there are many actions: π0^α is then many times π0 and the form ``policy``, if not
    normalized, tends to 0. The standard error says nothing of this bias. With continuous actions
    the form ``policy`` depends on the unit of the action. Missing support as for `IPW`.

    Parameters
    ----------
    alpha : α in [0, 1]; ``mse``, ``slope`` or ``ocv`` choose among 30 values from 1 to 0.
    form : ``policy`` raises the propensity to the power, ``ratio`` the importance weight.
    normalize : divide by the sum of these weights instead of n.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Exponential smoothing for off-policy learning (Aouali, Brunel, Rohde and Korba, 2023),
    equation 6; the form ``ratio`` is named there and not used.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> records = evaluate((ESIPW(), ESIPW(alpha=1.0)), "saito-toy", replicates=1)
    >>> abs(records[0].estimate) < abs(records[1].estimate)
    True
    """

    expected_failures: ClassVar[Mapping[str, str]] = {
        "check_identical_policies_give_the_logging_average": (
            "with the form policy, equal policies have weights π0^(1-α), not 1"
        )
    }
    tuned = "alpha"

    alpha: Annotated[float, Ge(0), Le(1)] | DataRule = 0.7
    form: Literal["policy", "ratio"] = "policy"
    normalize: bool = False

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=self.normalize)

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        used: FloatArray
        if self.form == "policy":
            used = rows.weight * rows.propensity ** (1.0 - parameter)
        else:
            # 0 to the power of 0 would be 1: an action that the target policy never takes.
            used = np.where(rows.weight > 0, rows.weight**parameter, 0.0)
        return used

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        return np.linspace(1.0, 0.0, GRID)
