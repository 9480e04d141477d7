"""Importance weighting with weights shrunk toward one (IPS-λ)."""

from __future__ import annotations

from ope_estimators.baseline.weighting.shrunk_weights import ShrunkWeights
from ope_estimators.baseline.weighting.weighted_intervals import WeightedIntervals

__all__ = ["SGIPW"]


class SGIPW(WeightedIntervals, ShrunkWeights):
    """Logged rewards with weights shrunk toward one by a harmonic mean: subgaussian weighting.

        V̂ = (1/n) sum_i u_i r_i,   u_i = w_i / (1 - λ + λ w_i),   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    λ = 0 is `IPW`; no weight exceeds 1/λ. With λ = 1 it is the mean of the rewards of rows with
    w > 0 if normalized. Rewards times c give c times the estimate; with ``normalize`` rewards
    plus c also give the estimate plus c.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little and rewards are far from 0: large weights lose more
    than small ones gain, so that without ``normalize`` the estimate is pulled toward 0. The
    standard error and the bootstrap say nothing of this bias. Missing support as for `IPW`.

    Parameters
    ----------
    lambda_ : λ in [0, 1]; ``theory`` solves
        λ² mean[(λ + (1 - λ) w^m)^(2/m)] = 2 ln(1/δ) / (3n) with m = n^(1/4), n being the number of
        units (rows, where there are none); ``mse``, ``slope`` or ``ocv`` choose among 0 and 29
        values up to 1.
    delta : δ of ``theory``, the probability that the bound behind it does not hold.
    normalize : divide by the sum of the shrunk weights instead of n.
    interval : ``asymptotic``, ``empirical-likelihood``, ``guaranteed``, ``anytime`` or
        ``bootstrap``.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them: ``guaranteed`` needs a range, ``empirical-likelihood`` else takes that of the logs.
    level : of the interval.
    resamples : number of bootstrap samples.
    ladder : values for a rule to choose among, in the order of ``slope``; None for those above.
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Subgaussian and differentiable importance sampling for off-policy evaluation and learning
    (Metelli, Russo and Restelli, 2021), equation 6. Cross-validated off-policy evaluation (Cief,
    Kveton and Kompan, 2025), for ``theory``; its code sets δ = .95 instead of .05, which makes λ
    about 7.6 times too small.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(SGIPW(), "saito-toy", replicates=1)[0]
    >>> 0 < record.diagnostics["lambda"] < 0.1
    True
    """

    _uses_row_weights = True

    normalize: bool = False
