"""Clipping of importance weights, a base of estimators."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from ope_bench import FloatArray
from ope_estimators.baseline.weighting.transformed import GRID, Answer, TransformedWeights
from ope_estimators.baseline.weighting.weighted_rows import WeightedRows
from ope_estimators.learning.folds import multiplicity

__all__ = ["ClippedWeights"]


class ClippedWeights(TransformedWeights):
    """Base: weights cut at a limit, u(w) = min(w, clip).

    Parameters
    ----------
    clip : largest weight; larger ones are cut. A number; None for no limit; ``root-n``, the
        square root of the number of units (rows, where there are none); or a rule that chooses
        among 30 limits in geometric progression, from the largest weight to the 5 % quantile of
        the positive ones: ``mse``, ``slope`` or ``ocv``.
    """

    tuned = "clip"

    clip: Annotated[float, Gt(0)] | Literal["root-n", "mse", "slope", "ocv"] | None = None

    def _transform(self, rows: WeightedRows, parameter: float | FloatArray) -> FloatArray:
        return np.minimum(rows.weight, parameter)

    def _candidates(self, rows: WeightedRows) -> FloatArray:
        positive = rows.weight
        if rows.row_weight is not None:
            positive = np.repeat(positive, multiplicity(rows.row_weight))
        positive = positive[positive > 0]
        if not len(positive):
            return np.array([1.0])
        low, high = float(np.quantile(positive, 0.05)), float(positive.max())
        return np.geomspace(high, low, GRID) if low < high else np.array([high])

    def _by_formula(self, rows: WeightedRows) -> float:
        return math.sqrt(rows.n_units)

    def _answer(self, rows: WeightedRows) -> Answer:
        if self.clip is None:
            used = rows.weight
            value, error, terms = rows.normalized(used) if self._normalized else rows.mean(used)
            return Answer(value, error, used, terms=terms)
        answer = super()._answer(rows)
        answer.diagnostics["clipped_share"] = float((rows.weight > answer.used).mean())
        return answer
