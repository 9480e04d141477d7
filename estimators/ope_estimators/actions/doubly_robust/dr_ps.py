"""The doubly robust estimator with clipped weights (pessimistic shrinkage)."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge

from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.actions.weighting.ipw import ClippedWeights

__all__ = ["DRPS"]


class DRPS(ResidualWeighted, ClippedWeights):
    """The direct method plus residuals with clipped weights: pessimistic shrinkage.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + min(w_i, λ) (r_i - q̂(x_i, a_i)) ],
        w_i = π1(a_i|x_i) / π0(a_i|x_i)

    λ = 0 is the direct method, λ -> ∞ `DR`. The form follows from a bound on the squared error
    that supposes nothing of how q̂ was fitted.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: q̂ is wrong where weights are large: the bias is E[(min(w, λ) - w) (r - q̂)], of
    which the standard error says nothing. Missing support as for `DR`.

    Parameters
    ----------
    clip : λ, the largest weight of a residual; a number; ``root-n``, the square root of the number
        of units (rows, where there are none); ``mse``, ``slope`` or ``ocv`` choose among 30 limits
        from the largest weight down. The bias that ``mse`` supposes is the difference from `DR`.
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Doubly robust off-policy evaluation with shrinkage (Su, Dimakopoulou, Krishnamurthy and
    Dudík, 2020), section 3.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(DRPS(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["clip"] > 0
    True
    """

    clip: Annotated[float, Ge(0)] | Literal["root-n", "mse", "slope", "ocv"] = "mse"
