"""The rules ``anchored`` and ``minimax``: least variance plus squared distance from anchors."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray
from ope_estimators.selection.spread import Spread

__all__ = ["anchored_score"]


def anchored_score(values: FloatArray, spread: Spread, n_anchors: int = 1) -> FloatArray:
    """Estimated mean squared error of each candidate, (k,), the last of k + m being the anchors.

        var(V̂_k) + max_a max(0, (V̂_k - V̂_a)² - var(V̂_k - V̂_a))

    The squared distance from an anchor whose bias is small exceeds the squared bias by the
    variance of the difference, in expectation; the rest is the estimated squared bias. Of several
    anchors the one that sees the largest bias counts: an anchor with a large variance sees none,
    and one that shares a candidate's bias does not see it.

    Parameters
    ----------
    values : (k + m,), estimates of the candidates and of the anchors.
    spread : of the same estimates.
    n_anchors : their number m.
    """
    k = len(values) - n_anchors
    bias = np.zeros(k)
    for anchor in range(k, len(values)):
        distance = np.square(values - values[anchor])
        with np.errstate(invalid="ignore"):
            found = distance - spread.of_difference(anchor)
        bias = np.maximum(bias, found[:k])
    score: FloatArray = spread.variance[:k] + bias
    return score
