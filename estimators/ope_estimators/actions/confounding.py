"""Bounds of a value under a hidden cause of action and reward (marginal sensitivity model).

The odds of the logged action, given what nobody logged, differ from those of the logged
propensity by a factor between 1/Λ and Λ.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from annotated_types import Ge

from ope_bench import (
    Diagnostic,
    Estimate,
    FloatArray,
    LinearEstimator,
    LinearScore,
    UnavailableError,
    View,
    row_chunks,
)

__all__ = [
    "HajekBounds",
    "MarginalSensitivityBounds",
    "Residuals",
    "percentile_ends",
    "sharp_mean",
]

MOST = 1e6
"""Strength up to which a turn of the lift's sign is looked for."""

RESAMPLES = 200
"""Draws of units from which the sampling error of weighted bounds is known."""

MOST_ROWS = 20_000
"""Rows up to which each resample has extremes of its own; of more rows those of the log are taken,
which change the result by the square of the sampling error."""


class Bounds(Protocol):
    """The bounds of an estimate."""

    def __call__(self, strength: float, end: int, /) -> float:
        """Return the least (0) or the largest (1) value by strength Λ."""


class MarginalSensitivityBounds(LinearEstimator):
    """Mixin before an estimator that knows how wrong a hidden cause can make it.

    Parameters
    ----------
    hidden_cause : strengths Λ, each at least 1, whose bounds are diagnostics
        (``hidden_cause_low[Λ]``, ``hidden_cause_high[Λ]``), beside ``hidden_cause_flip``, the
        least Λ at which they hold the mean logged reward; None for none. Estimators that know
        their sampling error add it: ``hidden_cause_low_with_error[Λ]``, ``..._high_...``.
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {"hidden_cause": None}

    _: KW_ONLY
    hidden_cause: tuple[Annotated[float, Ge(1)], ...] | None = None

    def scores(self, view: View, parameters: FloatArray | Sequence[float]) -> list[LinearScore]:
        """Return the scores of the estimator; UnavailableError where bounds are asked for."""
        if self.hidden_cause is not None:
            msg = "hidden_cause needs all rows at once; leave it out, or sample rows"
            raise UnavailableError(msg)
        return super().scores(view, parameters)

    def _with_bounds(self, estimate: Estimate, view: View, bounds: Bounds) -> Estimate:
        """Return the estimate with the bounds of each strength among its diagnostics."""
        facts: dict[str, Diagnostic] = dict(estimate.diagnostics)
        for strength in self.hidden_cause or ():
            facts[f"hidden_cause_low[{strength:g}]"] = bounds(strength, 0)
            facts[f"hidden_cause_high[{strength:g}]"] = bounds(strength, 1)
        facts["hidden_cause_flip"] = flip(bounds, float(view.reward.mean()))
        return replace(estimate, diagnostics=facts)


def flip(bounds: Bounds, average: float) -> float | None:
    """Return the least strength up to `MOST` whose bounds hold the average, None without any."""
    end = 0 if bounds(1.0, 0) > average else 1

    def distance(log_strength: float) -> float:
        found = bounds(float(np.exp(log_strength)), end) - average
        return found if end == 0 else -found

    if distance(0.0) <= 0.0:
        return 1.0
    if distance(float(np.log(MOST))) > 0.0:
        return None
    from scipy.optimize import brentq

    return float(np.exp(brentq(distance, 0.0, np.log(MOST), xtol=1e-8)))


class HajekBounds:
    """The least and the largest self-normalized estimate by strength.

        [min, max] of sum_i v_i r_i / sum_i v_i,   v_i / π1_i in [1 + (1/p_i - 1)/Λ,
                                                                  1 + (1/p_i - 1) Λ]

    The extremes give one end of its range to the rows below a reward and the other to those above.

    Parameters
    ----------
    target, propensity : (n,), probabilities of the logged action under both policies.
    reward : (n,)

    References
    ----------
    Sensitivity analysis for inverse probability weighting estimators via the percentile bootstrap
    (Zhao, Small and Bhattacharya, 2019), section 4; Tan (2006) for the model.

    >>> half = np.full(2, 0.5)
    >>> bounds = HajekBounds(half, half, np.array([0.0, 1.0]))
    >>> bounds(1.0, 0), bounds(2.0, 1)
    (0.5, 0.6666666666666666)
    """

    def __init__(self, target: FloatArray, propensity: FloatArray, reward: FloatArray) -> None:
        self._order = np.argsort(reward, kind="stable")
        self._reward, self._target = reward[self._order], target[self._order]
        self._odds = (1.0 / propensity - 1.0)[self._order]

    def __call__(self, strength: float, end: int) -> float:
        """Return the least (0) or the largest (1) estimate by strength Λ."""
        return float(self._extreme(strength, end, np.ones((1, len(self._reward))))[0])

    def resampled(self, count: FloatArray, strength: float, end: int) -> FloatArray:
        """Return the extreme of each resample of the rows; NaN where it has no weight: (b,).

        Parameters
        ----------
        count : (b, n), how often each resample has each row.
        """
        return self._extreme(strength, end, count[:, self._order])

    def weights(self, strength: float, end: int) -> FloatArray:
        """Return the weights v of the least (0) or the largest (1) estimate: (n,)."""
        small, large = (
            self._target * (1.0 + self._odds * one) for one in (1.0 / strength, strength)
        )
        high, low = (large, small) if end else (small, large)
        # A weight is at one end of its range by the side of the bound that its reward is on.
        found = np.empty_like(self._target)
        found[self._order] = np.where(self._reward > self(strength, end), high, low)
        return found

    def _extreme(self, strength: float, end: int, count: FloatArray) -> FloatArray:
        small, large = (
            self._target * (1.0 + self._odds * one) for one in (1.0 / strength, strength)
        )
        below, above = (small, large) if end else (large, small)
        none = np.zeros((len(count), 1))
        # By how many of the smallest rewards get the weights of ``below``.
        total, weight = (
            np.concatenate([none, np.cumsum(count * (below * one), axis=1)], axis=1)
            + np.concatenate([none, np.cumsum((count * (above * one))[:, ::-1], axis=1)], axis=1)[
                :, ::-1
            ]
            for one in (self._reward, np.ones_like(self._reward))
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = total / weight
        extreme: FloatArray = ratios.max(axis=1) if end else ratios.min(axis=1)
        return extreme


def percentile_ends(
    bounds: HajekBounds,
    view: View,
    strengths: tuple[float, ...],
    level: float,
) -> list[tuple[float, float]]:
    """Return for each strength the bounds with the sampling error of the log.

    They are the lower quantile of the least and the upper quantile of the largest estimates on
    units drawn with replacement, each resample with extremes of its own. Such an interval holds
    the value in ``level`` of the logs, whatever the cause within the bounds.

    Parameters
    ----------
    bounds : of the logged rows.
    view : the logs.
    strengths : Λ.
    level : of the interval.

    References
    ----------
    Sensitivity analysis for inverse probability weighting estimators via the percentile bootstrap
    (Zhao, Small and Bhattacharya, 2019), theorem 1.
    """
    units, unit = np.unique(view.unit, return_inverse=True)
    rng, k = view.estimator_rng("bounds under a hidden cause"), len(units)
    found = np.empty((len(strengths), 2, RESAMPLES))
    if view.n > MOST_ROWS:
        ends = itertools.product(strengths, (0, 1))
        weights = np.stack([bounds.weights(*one) for one in ends])
        sums = np.stack(
            [
                np.bincount(unit.reshape(-1), row, minlength=k)
                for row in (*(weights * view.reward), *weights)
            ],
            axis=1,
        )
        for draw in range(RESAMPLES):
            again = np.bincount(rng.integers(k, size=k), minlength=k)
            total, mass = (again @ sums).reshape(2, -1)
            found[:, :, draw] = (total / mass).reshape(len(strengths), 2)
    for rows in row_chunks(RESAMPLES if view.n <= MOST_ROWS else 0, view.n):
        drawn = rng.multinomial(k, np.full(k, 1.0 / k), size=rows.stop - rows.start)
        count = drawn[:, unit.reshape(-1)].astype(np.float64)
        for at, strength in enumerate(strengths):
            for end in (0, 1):
                found[at, end, rows] = bounds.resampled(count, strength, end)
    tail = (1.0 - level) / 2
    return [
        (float(np.nanquantile(low, tail)), float(np.nanquantile(high, 1.0 - tail)))
        for low, high in found
    ]


def sharp_mean(mean: float, tail: float, propensity: float, strength: float) -> float:
    """Return the largest mean reward of a context and an action, or the least.

        Q+ = c- E[r 1{r <= q}] + c+ E[r 1{r >= q}],   c+ = e (1 - Λ) + Λ,  c- = e (1 - 1/Λ) + 1/Λ

    with e the propensity and q the quantile of Λ/(1 + Λ); for Q- that of 1/(1 + Λ), and c- and c+
    trade places. Since c- Λ/(1 + Λ) + c+ /(1 + Λ) = 1, this is the mean and (Λ - 1/Λ)(1 - e) times
    the tail E[(r - E r) 1{r >= q}], or for Q- the other one. The bounds are sharp: some hidden
    cause attains them.

    Parameters
    ----------
    mean : E r.
    tail : E[(r - E r) 1{r beyond q}], of the upper or of the lower quantile; see `Residuals`.
    propensity : e.
    strength : Λ, at least 1.

    References
    ----------
    Sharp sensitivity analysis for inverse propensity weighting via quantile balancing (Dorn and
    Guo, 2023).

    >>> density = np.exp(-np.square(0.4307272993) / 2) / np.sqrt(2 * np.pi)
    >>> round(float(sharp_mean(0.7, 1.3 * density, 0.25, 2.0)), 6)
    1.231765
    """
    return mean + (strength - 1.0 / strength) * (1.0 - propensity) * tail


@dataclass(frozen=True, eq=False)
class Residuals:
    """How rewards spread around their mean: as coins, or as the logged residuals do.

    Parameters
    ----------
    reward : (n,), logged.
    mean : (n,), the model's, at the logged actions.
    """

    reward: FloatArray
    mean: FloatArray

    @cached_property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return bool(np.isin(self.reward, (0.0, 1.0)).all())

    @cached_property
    def _sorted(self) -> FloatArray:
        residual: FloatArray = np.sort(self.reward - self.mean)
        residual -= residual.mean()
        return residual

    def tail(self, strength: float, end: int) -> float:
        """Return the tail beyond the lower (0) or upper (1) quantile of the logged residuals."""
        low = -self._sorted[::-1] if end else self._sorted
        rows = len(low) / (1.0 + strength)
        # The quantile's own row counts in part.
        whole = int(rows)
        found = (low[:whole].sum() + (rows - whole) * low[whole]) / len(low)
        return float(-found if end else found)

    @staticmethod
    def coin_tail(mean: FloatArray, strength: float, end: int) -> FloatArray:
        """Return the tail of coins with these means: (k,)."""
        share = 1.0 / (1.0 + strength)
        p = np.clip(mean, 0.0, 1.0)
        beyond = np.minimum(p, share) if end else np.maximum(p - 1.0 + share, 0.0)
        tail: FloatArray = beyond - p * share
        return tail
