"""Weights of largest entropy that balance the means of functions exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench import FloatArray, PositivityViolation, View
from ope_estimators.density_ratio.basis import standardized
from ope_estimators.density_ratio.sample_weights import SampleWeights

__all__ = ["EntropyWeights"]

STEPS, TOLERANCE = 200, 1e-10


@dataclass(frozen=True)
class EntropyWeights:
    """α_i ∝ exp(θ'φ_i) with sum α φ / sum α = mean_1 φ.

    Parameters
    ----------
    moments : 1 balances the columns of embedding and context, 2 their squares and products, too.
    """

    moments: Literal[1, 2]

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> SampleWeights:
        """Return the weights; they sum to n.

        Raises
        ------
        PositivityViolation : no weights balance the means.
        """
        return self.weigh(view, *standardized(view), rng)

    def weigh(
        self, view: View, logged: FloatArray, target: FloatArray, rng: np.random.Generator
    ) -> SampleWeights:
        """Fit the weights on given features, (n, d) and (m, d)."""
        logged, target = (_moments(part, self.moments) for part in (logged, target))
        theta = balancing_parameters(logged - target.mean(axis=0))
        exponent = logged @ theta
        top = float(exponent.max())
        weights = np.exp(exponent - top)
        scale = len(weights) / weights.sum()
        with np.errstate(over="ignore"):
            at_target = np.minimum(np.exp(target @ theta - top) * scale, 1e300)
        return SampleWeights(weights * scale, at_target, {"functions": logged.shape[1]})


def _moments(rows: FloatArray, moments: int) -> FloatArray:
    if moments == 1:
        return rows
    first, second = np.triu_indices(rows.shape[1])
    return np.hstack([rows, rows[:, first] * rows[:, second]])


def balancing_parameters(gap: FloatArray) -> FloatArray:
    """Return θ with sum_i exp(θ'g_i) g_i = 0, by Newton steps on ln mean_i exp(θ'g_i).

    Parameters
    ----------
    gap : (n, k), logged rows minus the target mean.

    Raises
    ------
    PositivityViolation : no θ, as where the target mean is outside of what was logged.
    """

    def value(theta: FloatArray) -> float:
        exponent = gap @ theta
        top = float(exponent.max())
        return top + float(np.log(np.exp(exponent - top).mean()))

    theta = np.zeros(gap.shape[1])
    for _ in range(STEPS):
        exponent = gap @ theta
        share = np.exp(exponent - exponent.max())
        share /= share.sum()
        slope = share @ gap
        if np.abs(slope).max() < TOLERANCE:
            return theta
        hessian = (gap * share[:, None]).T @ gap - np.outer(slope, slope)
        try:
            direction = np.linalg.lstsq(hessian, -slope, rcond=1e-12)[0]
        except np.linalg.LinAlgError:
            break  # θ runs away, and the weights with it
        step, now = 1.0, value(theta)
        # Near the minimum a full step gains less than the rounding of the values.
        rounding = 1e-14 * (1.0 + abs(now))
        gain = 1e-4 * float(slope @ direction)
        while step > 1e-10 and value(theta + step * direction) > now + step * gain + rounding:
            step /= 2.0
        theta = theta + step * direction
    msg = (
        "no weights of the logs have the target sample's means: it lies outside of what was logged"
    )
    raise PositivityViolation(msg)
