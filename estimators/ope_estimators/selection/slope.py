"""The rule ``slope`` among estimators: `ope_estimators.tuning.slope` by their standard errors."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.selection.spread import Spread
from ope_estimators.tuning.slope import NORMAL_QUANTILE, slope

__all__ = ["slope_choice"]


def slope_choice(values: FloatArray, spread: Spread) -> tuple[int, FloatArray]:
    """Index of the narrowest estimate that agrees with all wider ones, and half-widths: (k,).

    Estimators are no ladder as thresholds are: where one with a small bias is narrower than one
    with a large bias, the search starts at the wrong end, see `slope`.

    Parameters
    ----------
    values : (k,)
    spread : of the same estimates.
    """
    half_width = NORMAL_QUANTILE * np.sqrt(spread.variance)
    return slope(values, half_width), half_width
