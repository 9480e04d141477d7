"""Importance weighting with weights shrunk toward one (IPS-λ)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import FloatArray, LinearScore
from ope_estimators.actions.weighting.intervals import WeightIntervals
from ope_estimators.actions.weighting.ipw import (
    TransformedWeights,
    zero_and_geometric,
)
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.rules import Rule

__all__ = ["SGIPW", "ShrunkWeights"]


class ShrunkWeights(TransformedWeights):
    """Base: the harmonic mean of weight and one, u(w) = w / (1 - λ + λ w).

    λ = 0 leaves weights as they are; λ = 1 makes every positive weight 1.

    Parameters
    ----------
    lambda_ : λ in [0, 1], or the rule that chooses it: ``theory`` (`shrinkage_by_theory`), or
        ``mse``, ``slope`` or ``ocv`` among 0 and 29 values in geometric progression up to 1.
    delta : the bound that ``theory`` balances holds with probability 1 - delta.
    """

    tuned = "lambda_"

    lambda_: Annotated[float, Ge(0), Le(1)] | Rule = "theory"
    delta: Annotated[float, Gt(0), Lt(1)] = 0.05

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        weight = rows.weight
        scale = 1.0 - parameter + parameter * weight
        # With λ = 1 a weight of 0 is 0/0; it stays 0.
        return np.divide(
            np.broadcast_to(weight, scale.shape), scale, out=np.zeros(scale.shape), where=scale > 0
        )

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        # The first positive value changes the largest weight by about one percent.
        return zero_and_geometric(0.01 / max(1.0, rows.largest), 1.0)

    def _by_formula(self, rows: WeightedRows) -> float:
        return rows.shrinkage(self.delta)


class SGIPW(WeightIntervals, ShrunkWeights):
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

    normalize: bool = False

    def _score(self, rows: WeightedRows, used: FloatArray) -> LinearScore:
        return rows.score(used, normalize=self.normalize)
