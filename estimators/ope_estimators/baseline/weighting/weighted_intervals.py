"""Intervals from importance weights, a base of estimators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Lt

from ope_bench import (
    UNIT_RESAMPLES,
    Access,
    Estimate,
    FloatArray,
    Interval,
    IntervalKind,
    PositivityViolation,
    View,
    betting_interval,
    bootstrap_interval,
    check_rewards,
    confidence_sequence,
    empirical_likelihood_interval,
    percentile_interval,
    resampled_rows,
)
from ope_estimators.baseline.weighting.reward_limits import (
    declared_limits,
    largest_ratio,
    without_interval,
)
from ope_estimators.baseline.weighting.transformed import WeightedBase
from ope_estimators.baseline.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.propensity import EstimatedPropensity, refuse_bets

__all__ = ["WeightedIntervals"]


class WeightedIntervals(EstimatedPropensity, WeightedBase):
    """Mixin before an estimator from weights: its parameters ask for an interval.

    ``empirical-likelihood`` and ``guaranteed`` are of the weights before any transform, and so of
    the target policy's value, whatever bias the transform brings.

    Parameters
    ----------
    interval : what is given beside the standard error. ``asymptotic``: nothing, the standard error
        has a normal interval; ``empirical-likelihood``; ``guaranteed``, which covers at least its
        level, by bets; ``anytime``, which does so after every row together, and gives the lift
        over the logging policy another such interval; ``bootstrap``, the quantiles of the
        estimates on units drawn with replacement. A single unit has only a ``guaranteed`` or
        ``anytime`` interval.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them. Without any range, ``guaranteed`` is unavailable and ``empirical-likelihood`` takes
        that of the logged rewards; there is no interval where these are all equal.
    largest_unit : the most rows that a unit can have, known before the log: ``guaranteed`` and
        ``anytime`` need it where rows have units, because sizes may tell of rewards.
    upper_end : of ``guaranteed`` and ``anytime``: ``mirrored``, the lower end of what rewards
        lack; ``mixed``, with half of the wealth on the weighted rewards themselves, about half as
        wide where rewards are few. The latter uses the logging policy's probabilities of all
        actions; where they are not known it is ``mirrored``.
    level : of the interval.
    resamples : number of bootstrap samples, the same ones for every estimator.
    """

    weight_intervals = True

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "interval": "asymptotic",
        "reward_range": None,
        "level": 0.95,
        "resamples": UNIT_RESAMPLES,
        "largest_unit": None,
        "upper_end": "mixed",
    }

    _: KW_ONLY
    interval: IntervalKind = "asymptotic"
    reward_range: tuple[float, float] | None = None
    level: Annotated[float, Gt(0), Lt(1)] = 0.95
    resamples: Annotated[int, Ge(2)] = UNIT_RESAMPLES
    largest_unit: Annotated[int, Ge(1)] | None = None
    upper_end: Literal["mirrored", "mixed"] = "mixed"

    @property
    def access(self) -> Access:
        """The logging policy as well, where an interval can use its probabilities."""
        return super().access | self.optional_access

    @property
    def optional_access(self) -> Access:
        """The probabilities of actions that were not taken, which make some intervals narrower."""
        bets = self.interval in ("guaranteed", "anytime") and not self._estimates
        used = bets and self.upper_end == "mixed"
        return Access.LOGGING_POLICY & ~Access.PROPENSITY if used else Access.SAMPLES

    def _interval(self, view: View, rows: WeightedRows) -> Interval | None:
        if self.interval in ("guaranteed", "anytime"):
            refuse_bets(self)
            limits = declared_limits(view, self.reward_range)
            if self._lacks_size(view):
                return None
            return (self._guaranteed if self.interval == "guaranteed" else self._sequence)(
                rows, view, limits
            )
        if self.interval == "asymptotic" or rows.n_units < 2:
            return None
        if self.interval == "bootstrap" and self._estimates:
            values = self.get_params(deep=False) | {"interval": "asymptotic"}
            again = type(self)(**values)
            return bootstrap_interval(again, view, level=self.level, resamples=self.resamples)
        if self.interval == "bootstrap":
            # Nothing is fitted, so that resampled weights give the estimate on resampled logs.
            answers = (
                self._resampled(replace(rows.take(drawn.logged), unit=drawn.unit))
                for drawn, _ in resampled_rows(view, self.resamples)
            )
            return percentile_interval(answers, level=self.level)
        return self._by_likelihood(view, rows)

    def _by_likelihood(self, view: View, rows: WeightedRows) -> Interval | None:
        limits = view.reward_range if self.reward_range is None else self.reward_range
        if limits is None:
            limits = float(rows.outcome.min()), float(rows.outcome.max())
            if limits[0] == limits[1]:
                return None
        else:
            check_rewards(rows.outcome, limits)
        return empirical_likelihood_interval(
            rows.weight,
            rows.outcome,
            reward_range=limits,
            # Estimated propensities have no known range.
            weight_range=(0.0, math.inf) if self._estimates else view.weight_range(),
            unit=rows.unit,
            level=self.level,
        )

    def _lacks_size(self, view: View) -> bool:
        """Return whether the largest number of rows of a unit is not known."""
        return view.has_units and self.largest_unit is None

    def _largest_weight(self, view: View) -> FloatArray | None:
        """Return the largest weight that each row's context allows, where it is used: (n,)."""
        return largest_ratio(view) if self.upper_end == "mixed" else None

    def _guaranteed(self, rows: WeightedRows, view: View, limits: tuple[float, float]) -> Interval:
        return betting_interval(
            rows.weight,
            rows.outcome,
            reward_range=limits,
            unit=rows.unit,
            level=self.level,
            largest_unit=self.largest_unit,
            largest_weight=self._largest_weight(view),
        )

    def _sequence(
        self,
        rows: WeightedRows,
        view: View,
        limits: tuple[float, float],
        *,
        difference: bool = False,
    ) -> Interval:
        return confidence_sequence(
            rows.weight,
            rows.outcome,
            reward_range=limits,
            unit=rows.unit,
            level=self.level,
            difference=difference,
            largest_unit=self.largest_unit,
            largest_weight=None if difference else self._largest_weight(view),
        )

    def estimate(self, view: View) -> Estimate:
        """Return the estimate; with ``anytime`` diagnostics have the lift's interval, too."""
        found = super().estimate(view)
        if self.interval in ("guaranteed", "anytime") and self._lacks_size(view):
            return without_interval(found)
        if self.interval != "anytime":
            return found
        limits = declared_limits(view, self.reward_range)
        lift = self._sequence(self._rows(view), view, limits, difference=True)
        facts = {"lift_low": lift.low, "lift_high": lift.high}
        return replace(found, diagnostics={**found.diagnostics, **facts})

    def _resampled(self, rows: WeightedRows) -> float:
        try:
            return self._answer(rows).value
        except PositivityViolation:
            return math.nan
