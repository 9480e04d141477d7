"""Shrinkage of importance weights toward one, a base of estimators."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import FloatArray
from ope_estimators.baseline.weighting.transformed import TransformedWeights, zero_and_geometric
from ope_estimators.baseline.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.rules import Rule

__all__ = ["ShrunkWeights", "shrinkage_by_theory"]


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
        return zero_and_geometric(0.01 / max(1.0, float(rows.weight.max())), 1.0)

    def _by_formula(self, rows: WeightedRows) -> float:
        return shrinkage_by_theory(rows.weight, self.delta, rows.n_units, rows.row_weight)


def shrinkage_by_theory(
    weight: FloatArray,
    delta: float,
    n: int | None = None,
    row_weight: FloatArray | None = None,
) -> float:
    """The λ in (0, 1] that solves

        λ² mean_i [λ + (1 - λ) w_i^m]^(2/m) = 2 ln(1/δ) / (3 n),   m = n^(1/4)

    The left side grows from 0 to 1; where the right side is 1 or more, λ is 1. n is the number of
    independent units; of weights where None. The mean is weighted where rows stand for several.

    References
    ----------
    Subgaussian and differentiable importance sampling for off-policy evaluation and learning
    (Metelli, Russo and Restelli, 2021), in the form of Cross-validated off-policy evaluation
    (Cief, Kveton and Kompan, 2025).

    Note: the code of the latter sets δ = .95 instead of .05, which makes λ about 7.6 times too
    small. The code of the former shrinks instead of raising to the power m: it solves
    x² mean_i [w_i / (1 - x + x w_i)]² = 2 ln(1/δ) / (3 √n), and λ = x n^(-1/4).

    >>> round(shrinkage_by_theory(np.ones(1000), 0.05), 6)
    0.04469
    """
    from scipy.optimize import brentq

    n = len(weight) if n is None else n
    target = math.log(2.0 * math.log(1.0 / delta) / (3.0 * n))
    if target >= 0:
        return 1.0
    power = n**0.25
    with np.errstate(divide="ignore"):
        log_weight = power * np.log(weight)

    def excess(value: float) -> float:
        # In logarithms, since powers of large weights overflow.
        rest = math.log1p(-value) if value < 1 else -math.inf
        log_terms = 2.0 / power * np.logaddexp(math.log(value), rest + log_weight)
        top = float(log_terms.max())
        terms = np.exp(log_terms - top)
        mean = math.log(float(np.average(terms, weights=row_weight))) + top
        return 2.0 * math.log(value) + mean - target

    # No mean is larger than the square of the largest weight, or 1.
    low = math.exp(target / 2.0) / max(1.0, float(weight.max()))
    if excess(low) >= 0:
        return low
    return float(brentq(excess, low, 1.0, xtol=1e-12, rtol=1e-10))
