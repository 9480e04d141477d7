"""The doubly robust estimator with weights shrunk toward one."""

from __future__ import annotations

from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.actions.weighting.sg_ipw import ShrunkWeights

__all__ = ["SGDR"]


class SGDR(ResidualWeighted, ShrunkWeights):
    """The direct method plus residuals whose weights are shrunk toward one: subgaussian.

        V̂ = (1/n) sum_i [ sum_a π1(a|x_i) q̂(x_i, a) + u_i (r_i - q̂(x_i, a_i)) ],
        u_i = w_i / (1 - λ + λ w_i),   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    λ = 0 is `DR`; no weight exceeds 1/λ. With λ = 1 every residual with w > 0 has weight 1.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: q̂ is wrong where weights are large: the shrunk weights then correct too little
    of it, and the standard error says nothing of this bias. Missing support as for `DR`.

    Parameters
    ----------
    lambda_ : λ in [0, 1]; ``theory`` as for `SGIPW`; ``mse``, ``slope`` or ``ocv`` choose among
        0 and 29 values up to 1.
    delta : δ of ``theory``, the probability that the bound behind it does not hold.
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
    Subgaussian and differentiable importance sampling for off-policy evaluation and learning
    (Metelli, Russo and Restelli, 2021), for the weights. Cross-validated off-policy evaluation
    (Cief, Kveton and Kompan, 2025), for the doubly robust form among those compared.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(SGDR(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> 0 < record.diagnostics["lambda"] < 0.1
    True
    """
