"""Aggregate the outcomes of one estimator on one setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ope_bench.boards.board import (
    DiagnosticSummary,
    RowCost,
    RowSupport,
    RowValues,
    Warnings,
    Withheld,
)
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import TruthKind
from ope_bench.statistics.coverage import Coverage, ErrorIntervals, wilson
from ope_bench.statistics.error_distribution import (
    area_under_cdf,
    median,
    root_mean_square,
    scaled_rms,
    summarize,
)
from ope_bench.trials.outcomes import STATUSES, Outcomes
from ope_bench.trials.status import Status


@dataclass(frozen=True, eq=False)
class ReplicateFacts:
    """Facts of replicates' data, taken from the outcomes of all estimators.

    The record of a trial whose worker died lacks truth and logging average; records of other
    estimators on the same data have them. All arrays are (replicates + 1,), NaN where unknown;
    the last entry is that of data that are none of these.

    Parameters
    ----------
    places : index of each replicate by data key.
    truth : the value against which errors are measured.
    expected : the target policy's value.
    empirical : mean reward of the target sample.
    logging_average : mean logged reward.
    """

    places: Mapping[str, int]
    truth: FloatArray
    expected: FloatArray
    empirical: FloatArray
    logging_average: FloatArray

    @classmethod
    def of(cls, outcomes: Outcomes, truth: TruthKind) -> ReplicateFacts:
        """Collect the facts from outcomes: of each replicate the first that is known."""
        keys = outcomes.data_key.tolist()
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        at = np.array([places[key] for key in keys], dtype=np.int64)

        def first(values: FloatArray) -> FloatArray:
            found = np.full(len(places) + 1, np.nan)
            known = np.flatnonzero(~np.isnan(values))[::-1]
            # Of assignments to one place the last counts: the first in order.
            found[at[known]] = values[known]
            return found

        expected, empirical = first(outcomes.truth_expected), first(outcomes.truth_empirical)
        average = first(outcomes.logging_average)
        chosen = empirical if truth == "empirical" else expected
        return cls(places, chosen, expected, empirical, average)

    def at(self, outcomes: Outcomes) -> IntArray:
        """Return the place of each trial's data in the arrays."""
        places = self.places
        return np.array([places.get(key, -1) for key in outcomes.data_key.tolist()], np.int64)

    @cached_property
    def naive(self) -> FloatArray:
        """Return the error of the logging average on each replicate."""
        # Rewards may be so large that their difference is not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.logging_average - self.truth

    @cached_property
    def naive_square(self) -> float | None:
        """Return the mean squared error of the logging average over all replicates."""
        known = known_values(self.naive)
        return sum(error * error for error in known) / len(known) if known else None


@dataclass(frozen=True, kw_only=True)
class RowStatistics:
    """Statistics and single errors of one row, before it is compared with others.

    Parameters
    ----------
    errors : (finite,), estimate minus truth, ordered by seed and replicate.
    imputed : error by data key; failures have that of the logging average.
    tried : number of trials that were not unavailable.
    values : the statistics that the row shows.
    """

    errors: FloatArray
    imputed: Mapping[str, float]
    tried: int
    values: RowValues


@np.errstate(over="ignore", invalid="ignore")
def errors_of(outcomes: Outcomes, facts: ReplicateFacts) -> FloatArray:
    """Return the errors of finite estimates: (n,); NaN for every other outcome."""
    return _errors(outcomes, facts.truth[facts.at(outcomes)])


def _errors(outcomes: Outcomes, truth: FloatArray) -> FloatArray:
    errors = np.where(outcomes.has(Status.OK), outcomes.estimate - truth, np.nan)
    return np.where(np.isfinite(errors), errors, np.nan)


def known_values(values: FloatArray) -> list[float]:
    """Return the numbers that exist, in order."""
    found: list[float] = values[~np.isnan(values)].tolist()
    return found


# Finite estimates may be so large that a figure made of them is not.
@np.errstate(over="ignore", invalid="ignore")
def aggregate(outcomes: Outcomes, facts: ReplicateFacts) -> RowStatistics:
    """Aggregate the outcomes of one row."""
    outcomes = outcomes.by_data()
    tried = outcomes.take(outcomes.tried)
    at = facts.at(tried)
    keys: list[str] = tried.data_key.tolist()
    # By data set: rows over numbers of threads may have one twice.
    by_key = {
        key: error
        for key, error in zip(keys, _errors(tried, facts.truth[at]).tolist(), strict=True)
        if not math.isnan(error)
    }
    # In record order; failures have the logging average's error, where that is known.
    imputed = {
        key: error
        for key, naive in zip(keys, facts.naive[at].tolist(), strict=True)
        if not math.isnan(error := by_key.get(key, naive))
    }
    errors = np.fromiter(by_key.values(), np.float64)
    truths = facts.truth[[facts.places[key] for key in by_key]]
    against_sample = _errors(tried, facts.empirical[at])
    against_sample = against_sample[~np.isnan(against_sample)]
    numbers = np.bincount(outcomes.status, minlength=len(STATUSES)).tolist()
    status = dict(zip(STATUSES, numbers, strict=True))
    limit = facts.naive_square
    reasons = Counter(tried.withheld())
    values = RowValues(
        replicates=len(outcomes),
        errors=summarize(errors),
        imputed=len(imputed) - len(errors),
        truth_rms=root_mean_square(truths) if len(truths) else None,
        # A square that overflows exceeds the limit, too.
        error_cdf_area=area_under_cdf(np.square(errors), limit) if len(errors) and limit else None,
        relative_error=_mean(np.abs(errors / truths)) if truths.all() else None,
        rmse_empirical=scaled_rms(against_sample) if len(against_sample) else None,
        status={item.value: number for item, number in status.items() if number},
        positivity=wilson(status[Status.POSITIVITY], len(tried)),
        failure=wilson(len(tried) - status[Status.OK], len(tried)),
        warnings=_warnings(tried, facts.truth[at], facts.naive[at]),
        coverage=_coverage(tried, facts.expected[at]),
        withheld=Withheld(
            count=reasons.total(), reasons=tuple(reason for reason, _ in reasons.most_common())
        ),
        support=RowSupport(
            **{one.name: _mean(getattr(outcomes, one.name)) for one in fields(RowSupport)}
        ),
        cost=_cost(outcomes),
        diagnostics={
            name: DiagnosticSummary(
                count=len(known),
                mean=_mean_of(known),
                median=median(known),
                minimum=min(known),
                maximum=max(known),
            )
            for name, numbers in outcomes.diagnostics.finite_numbers().items()
            for known in [numbers.tolist()]
        },
    )
    return RowStatistics(errors=errors, imputed=imputed, tried=len(tried), values=values)


def _warnings(outcomes: Outcomes, truth: FloatArray, naive: FloatArray) -> Warnings:
    violation = outcomes.has(Status.POSITIVITY)
    distance = np.abs(np.where(violation, outcomes.fallback, outcomes.estimate) - truth)
    comparable = ~np.isnan(distance) & ~np.isnan(naive)
    large = comparable & (distance > np.abs(naive))
    warned, judged = int(violation.sum()), int((comparable & violation).sum())
    right, missed = int((large & violation).sum()), int((large & ~violation).sum())
    # Without a fallback it is unknown whether the warning was right, and so is recall.
    known = right + missed and judged == warned
    return Warnings(
        warned=warned,
        judged=judged,
        precision=right / judged if judged else None,
        recall=right / (right + missed) if known else None,
    )


def _coverage(outcomes: Outcomes, expected: FloatArray) -> Coverage:
    """Return the coverage of the own intervals, else of the normal ones of standard errors."""
    ok = outcomes.has(Status.OK)
    estimate, error = outcomes.estimate[ok], outcomes.standard_error[ok]
    low, high = outcomes.interval_low[ok], outcomes.interval_high[ok]
    normal = ErrorIntervals.normal(estimate, error, expected[ok], outcomes.ess_fraction[ok])
    own = np.isfinite(low)
    found = replace(
        normal,
        down=np.where(own, estimate - low, normal.down),
        up=np.where(own, high - estimate, normal.up),
        level=np.where(own, outcomes.interval_level[ok], normal.level),
    ).coverage()
    words = zip(outcomes.interval_kind[ok].tolist(), np.isnan(error).tolist(), strict=True)
    kinds = {kind or ("" if unknown else "asymptotic") for kind, unknown in words} - {""}
    return replace(found, kind=", ".join(sorted(kinds)))


def _mean(values: FloatArray) -> float | None:
    known = known_values(values)
    return _mean_of(known) if known else None


def _mean_of(values: Sequence[float]) -> float:
    direct = sum(values) / len(values)
    # The sum of finite numbers may overflow.
    return direct if math.isfinite(direct) else sum(value / len(values) for value in values)


def _cost(outcomes: Outcomes) -> RowCost:
    """Summarize costs; seconds of trials that ran alone, since others are not comparable."""
    alone = outcomes.exclusive & outcomes.has(Status.OK)
    fit, estimate = outcomes.fit_seconds[alone], outcomes.estimate_seconds[alone]
    return RowCost(
        fit_seconds=_median(fit),
        estimate_seconds=_median(estimate),
        seconds=_median(fit + estimate),
        peak_rss_bytes=_median(outcomes.peak_rss_bytes),
    )


def _median(values: FloatArray) -> float | None:
    known = known_values(values)
    return median(known) if known else None
