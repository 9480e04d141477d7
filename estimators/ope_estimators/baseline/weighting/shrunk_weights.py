"""Shrinkage of importance weights toward one, a base of estimators."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import FloatArray
from ope_estimators.baseline.weighting.transformed import TransformedWeights, zero_and_geometric
from ope_estimators.baseline.weighting.weighted_rows import WeightedRows
from ope_estimators.tuning.rules import Rule

__all__ = ["ShrunkWeights"]


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
