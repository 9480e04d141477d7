"""The rule ``slope`` among estimators, by their standard errors."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.selection.spread import Spread
from ope_estimators.tuning.slope import NORMAL_QUANTILE, slope

__all__ = ["slope_choice"]


def slope_choice(values: FloatArray, spread: Spread) -> tuple[int, FloatArray]:
    """Index of the last estimate that agrees with all before it, and half-widths: (k,).

    Candidates are walked in their order, from the least bias on, as in the released code of the
    cross-validation study of Cief, Kveton and Kompan (2025): estimators are no ladder as
    thresholds are, so that their widths do not tell it.

    Parameters
    ----------
    values : (k,)
    spread : of the same estimates.
    """
    half_width = NORMAL_QUANTILE * np.sqrt(spread.variance)
    return slope(values, half_width, in_order=True), half_width
