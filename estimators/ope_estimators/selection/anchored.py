"""The rule ``anchored``: least variance plus squared distance from an anchor."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.selection.spread import Spread

__all__ = ["anchored_score"]


def anchored_score(values: FloatArray, spread: Spread) -> FloatArray:
    """Estimated mean squared error of each candidate, (k,), the last of k + 1 being the anchor.

        var(V̂_k) + max(0, (V̂_k - V̂_anchor)² - var(V̂_k - V̂_anchor))

    The squared distance from an anchor whose bias is small exceeds the squared bias by the
    variance of the difference, in expectation; the rest is the estimated squared bias.

    Parameters
    ----------
    values : (k + 1,), estimates of the candidates and of the anchor.
    spread : of the same estimates.
    """
    k = len(values) - 1
    with np.errstate(invalid="ignore"):
        found = np.square(values - values[k]) - spread.of_difference(k)
    score: FloatArray = spread.variance[:k] + np.maximum(0.0, found[:k])
    return score
