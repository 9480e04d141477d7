"""How strong a hidden cause would have to be to turn the sign of a lift.

In the marginal sensitivity model the odds of the logged action, given what nobody logged, differ
from those of the logged propensity by a factor between 1/Lambda and Lambda. The self-normalized
estimate is then somewhere in

    [min, max] of sum_i v_i r_i / sum_i v_i,   v_i / pi1_i in [1 + (1/p_i - 1)/Lambda,
                                                               1 + (1/p_i - 1) Lambda]

The extremes give one end of its range to the rows below a reward and the other end to those above.

References
----------
"Sensitivity analysis for inverse probability weighting estimators via the percentile bootstrap"
(Zhao, Small and Bhattacharya, 2019), section 4; Tan (2006) for the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray

LAMBDAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Strengths whose bounds are shown."""

MOST = 1e6
"""Strength up to which a turn of the sign is looked for."""


def bounds(
    target: FloatArray, propensity: FloatArray, reward: FloatArray, strength: float
) -> tuple[float, float]:
    """Return the least and the largest self-normalized estimate.

    Parameters
    ----------
    target, propensity : (n,), probabilities of the logged action under both policies.
    reward : (n,)
    strength : Lambda, at least 1.

    >>> half = np.full(2, 0.5)
    >>> bounds(half, half, np.array([0.0, 1.0]), 1.0)
    (0.5, 0.5)
    """
    odds = 1.0 / propensity - 1.0
    order = np.argsort(reward, kind="stable")
    r = reward[order]
    small, large = ((target * (1.0 + odds * one))[order] for one in (1.0 / strength, strength))

    def ratios(below: FloatArray, above: FloatArray) -> FloatArray:
        """Ratios by how many of the smallest rewards get ``below``: (n + 1,)."""
        total, weight = (
            np.concatenate([[0.0], np.cumsum(below * one)])
            + np.concatenate([[0.0], np.cumsum((above * one)[::-1])])[::-1]
            for one in (r, np.ones_like(r))
        )
        found: FloatArray = total / weight
        return found

    return float(ratios(large, small).min()), float(ratios(small, large).max())


def flip(
    target: FloatArray, propensity: FloatArray, reward: FloatArray, average: float
) -> float | None:
    """Return the least Lambda whose bounds hold the average, None where none up to `MOST` does."""
    from scipy.optimize import brentq

    value = bounds(target, propensity, reward, 1.0)[0]
    end = 0 if value > average else 1

    def distance(log_strength: float) -> float:
        found = bounds(target, propensity, reward, float(np.exp(log_strength)))[end] - average
        return found if end == 0 else -found

    if distance(0.0) <= 0.0:
        return 1.0
    if distance(float(np.log(MOST))) > 0.0:
        return None
    return float(np.exp(brentq(distance, 0.0, np.log(MOST), xtol=1e-10)))


def sensitivity(target: FloatArray, propensity: FloatArray, reward: FloatArray) -> dict[str, Any]:
    """Return the turning point of the lift's sign, and bounds at several strengths."""
    found = ((one, bounds(target, propensity, reward, one)) for one in LAMBDAS)
    return {
        "lambda_flip": flip(target, propensity, reward, float(reward.mean())),
        "bounds": [{"lambda": one, "low": low, "high": high} for one, (low, high) in found],
    }
