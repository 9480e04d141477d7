"""Intervals beside an estimate: of units drawn again, and of weights and rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Lt

from ope_bench import (
    UNIT_RESAMPLES,
    Access,
    Estimate,
    Estimator,
    FloatArray,
    Interval,
    IntervalKind,
    PositivityViolation,
    Solution,
    View,
    betting_interval,
    bootstrap_interval,
    check_rewards,
    confidence_sequence,
    empirical_likelihood_interval,
    percentile_interval,
    resampled_rows,
)
from ope_estimators.actions.weighting.reward_limits import (
    declared_limits,
    largest_ratio,
    without_interval,
)
from ope_estimators.actions.weighting.weighted_rows import WeightedRows
from ope_estimators.nuisance.propensity import EstimatedPropensity, refuse_bets

__all__ = ["IntervalOptions", "WeightIntervals"]


class IntervalOptions(Estimator):
    """Mixin before an estimator: parameters ask for an interval beside its estimate.

    Parameters
    ----------
    interval : ``bootstrap``, the quantiles of the estimates on units drawn with replacement, with
        all models fitted anew; ``asymptotic``, no interval but that of the standard error.
    level : of the interval.
    resamples : number of bootstrap samples, the same ones for every estimator; the estimate then
        takes as much longer.
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "interval": "asymptotic",
        "level": 0.95,
        "resamples": UNIT_RESAMPLES,
    }

    _: KW_ONLY
    interval: Literal["asymptotic", "bootstrap"] = "asymptotic"
    level: Annotated[float, Gt(0), Lt(1)] = 0.95
    resamples: Annotated[int, Ge(2)] = UNIT_RESAMPLES

    def estimate(self, view: View) -> Estimate:
        """Return the estimate, with an interval where the parameters ask for one."""
        found = super().estimate(view)  # type: ignore[safe-super]  # of the class after this one
        return found if self.interval == "asymptotic" else self._with_interval(found, view)

    def _with_interval(self, found: Estimate, view: View) -> Estimate:
        """Return the estimate with the interval that the parameters ask for."""
        return replace(found, interval=self._bootstrap(view))

    def _bootstrap(self, view: View) -> Interval | None:
        """Return the bootstrap interval of the same estimator; None if too many resamples fail."""
        values = self.get_params(deep=False) | {"interval": "asymptotic"}
        return bootstrap_interval(
            type(self)(**values), view, level=self.level, resamples=self.resamples
        )


class WeightIntervals(IntervalOptions, EstimatedPropensity):
    """`IntervalOptions` before an `ActionWeighting`, with those that follow from rewards, too.

    ``empirical-likelihood`` and ``guaranteed`` are of the weights before any transform, and so of
    the target policy's value, whatever bias the transform brings.

    Parameters
    ----------
    interval : ``empirical-likelihood``; ``guaranteed``, which covers at least its level, by bets;
        ``anytime``, which does so after every row together, and gives the lift over the logging
        policy another such interval; ``bootstrap`` or ``asymptotic``. A single unit has only a
        ``guaranteed`` or ``anytime`` interval.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them. Without any range, ``guaranteed`` is unavailable and ``empirical-likelihood`` takes
        that of the logged rewards; there is no interval where these are all equal.
    largest_unit : the most rows that a unit can have, known before the log: ``guaranteed`` and
        ``anytime`` need it where rows have units, because sizes may tell of rewards.
    upper_end : of ``guaranteed`` and ``anytime``: ``mirrored``, the lower end of what rewards
        lack; ``mixed``, with half of the wealth on the weighted rewards themselves, about half as
        wide where rewards are few. The latter uses the logging policy's probabilities of all
        actions; where they are not known it is ``mirrored``.
    """

    weight_intervals = True

    if TYPE_CHECKING:  # those of `ActionWeighting`, which is after this class

        def _rows(self, view: View) -> WeightedRows: ...

        def _answer(self, rows: WeightedRows) -> Solution: ...

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "reward_range": None,
        "largest_unit": None,
        "upper_end": "mixed",
    }

    _: KW_ONLY
    interval: IntervalKind = "asymptotic"  # type: ignore[assignment]  # has more than the base
    reward_range: tuple[float, float] | None = None
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

    def _with_interval(self, found: Estimate, view: View) -> Estimate:
        if self.interval in ("guaranteed", "anytime"):
            return self._by_bets(found, view)
        rows = self._rows(view)
        if rows.n_units < 2:
            return found
        if self.interval == "empirical-likelihood":
            return replace(found, interval=self._by_likelihood(view, rows))
        if self._estimates:
            return super()._with_interval(found, view)
        # Nothing is fitted, so that resampled weights give the estimate on resampled logs.
        answers = (
            self._resampled(replace(rows.take(drawn.logged), unit=drawn.unit))
            for drawn, _ in resampled_rows(view, self.resamples)
        )
        return replace(found, interval=percentile_interval(answers, level=self.level))

    def _by_bets(self, found: Estimate, view: View) -> Estimate:
        """Return the estimate with ``guaranteed`` or ``anytime``; for the latter with its lift."""
        refuse_bets(self)
        limits = declared_limits(view, self.reward_range)
        if view.has_units and self.largest_unit is None:
            return without_interval(found)
        rows = self._rows(view)
        if self.interval == "guaranteed":
            return replace(found, interval=self._guaranteed(rows, view, limits))
        lift = self._sequence(rows, view, limits, difference=True)
        return replace(
            found,
            interval=self._sequence(rows, view, limits),
            diagnostics={**found.diagnostics, "lift_low": lift.low, "lift_high": lift.high},
        )

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

    def _resampled(self, rows: WeightedRows) -> float:
        try:
            return self._answer(rows).value
        except PositivityViolation:
            return math.nan
