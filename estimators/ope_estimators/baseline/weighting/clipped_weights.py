"""Clipping of importance weights, a base of estimators."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from ope_bench import FloatArray, Solution
from ope_estimators.baseline.weighting.transformed import GRID, TransformedWeights
from ope_estimators.baseline.weighting.weighted_rows import WeightedRows

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
        low, high = rows.positive_quantiles()[0], rows.largest
        return np.geomspace(high, low, GRID) if 0 < low < high else np.array([high or 1.0])

    def parameters(self, rows: WeightedRows) -> FloatArray:
        """Return the limit, or its candidates."""
        return np.array([math.inf]) if self.clip is None else super().parameters(rows)

    def _by_formula(self, rows: WeightedRows) -> float:
        return math.sqrt(rows.n_units)

    def _answer(self, rows: WeightedRows) -> Solution:
        if self.clip is None:
            return rows.solve(self._score(rows, None))
        answer = super()._answer(rows)
        answer.diagnostics["clipped_share"] = float((rows.weight > answer.used).mean())
        return answer
