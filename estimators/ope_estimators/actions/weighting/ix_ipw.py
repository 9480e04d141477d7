"""Importance weighting with implicit exploration."""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge

from ope_bench import FloatArray, LinearScore
from ope_estimators.actions.weighting.ipw import (
    TransformedWeights,
    zero_and_geometric,
)
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.propensity import EstimatedPropensity
from ope_estimators.tuning.rules import Rule

__all__ = ["IXIPW"]


class IXIPW(EstimatedPropensity, TransformedWeights):
    """Logged rewards weighted with a constant added to every propensity: implicit exploration.

        V̂ = (1/n) sum_i u_i r_i,   u_i = π1(a_i|x_i) / (π0(a_i|x_i) + γ)

    γ = 0 is `IPW`. For r >= 0 the bias is at most 0 and the estimate a lower bound with high
    probability. Rewards times c give c times the estimate; with ``normalize`` rewards plus c also
    give the estimate plus c.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: there are many actions: propensities are then of the size of γ for all, and
    without ``normalize`` the estimate is pulled toward 0. The standard error says nothing of
    this bias. With continuous actions γ has the unit of a density. Missing support as for `IPW`.

    Parameters
    ----------
    gamma : γ >= 0; ``theory`` is 1/(2√n), n being the number of units (rows, where there are
        none); ``mse``, ``slope`` or ``ocv`` choose among 0 and 29 values in geometric progression
        up to the largest propensity.
    normalize : divide by the sum of these weights instead of n.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Importance-weighted offline learning done right (Gabbianelli, Neu and Papini, 2023), equation
    4.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IXIPW(), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["gamma"] == 0.5 * 1000 ** -0.5
    True
    """

    tuned = "gamma"

    gamma: Annotated[float, Ge(0)] | Rule = "theory"
    normalize: bool = False

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=self.normalize)

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        used: FloatArray = rows.weight * (rows.propensity / (rows.propensity + parameter))
        return used

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        low, high = 0.01 * float(rows.propensity.min()), float(rows.propensity.max())
        return zero_and_geometric(low, high)

    def _by_formula(self, rows: WeightedRows) -> float:
        return 0.5 / math.sqrt(rows.n_units)
