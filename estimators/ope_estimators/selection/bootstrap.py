"""The rule ``bootstrap``: least variance, whatever the bias."""

from __future__ import annotations

from ope_bench import FloatArray
from ope_estimators.selection.spread import Spread

__all__ = ["variance_score"]


def variance_score(spread: Spread) -> FloatArray:
    """Variance of each estimate over resamples: (k,).

    It knows no bias: the logging average mostly wins. A yardstick for other rules.
    """
    return spread.variance
