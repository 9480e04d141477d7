"""Aggregate the outcomes of one estimator on one setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ope_bench.boards.figures import (
    Cost,
    DiagnosticSummary,
    RowFigures,
    Support,
    Warnings,
    Withheld,
)
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import TruthKind
from ope_bench.statistics.coverage import Coverage, ErrorIntervals, wilson
from ope_bench.statistics.distribution import (
    area_under_cdf,
    median,
    root_mean_square,
    scaled_rms,
    summarize,
)
from ope_bench.trials.diagnostics import DiagnosticColumn
from ope_bench.trials.outcomes import STATUSES, Outcomes
from ope_bench.trials.status import Status

__all__ = [
    "ReplicateFacts",
    "RowStatistics",
    "aggregate",
    "errors_of",
    "known_values",
]


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
    figures : the statistics that the row shows.
    """

    errors: FloatArray
    imputed: Mapping[str, float]
    tried: int
    figures: RowFigures


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
    single = _errors(tried, facts.truth[at])
    errors = {
        key: error
        for key, error in zip(keys, single.tolist(), strict=True)
        if not math.isnan(error)
    }
    imputed = _impute(keys, errors, facts.naive[at].tolist())
    array = np.fromiter(errors.values(), np.float64)
    truths = facts.truth[[facts.places[key] for key in errors]]
    numbers = np.bincount(outcomes.status, minlength=len(STATUSES)).tolist()
    status = dict(zip(STATUSES, numbers, strict=True))
    figures = RowFigures(
        replicates=len(outcomes),
        errors=summarize(array),
        imputed=len(imputed) - len(errors),
        truth_rms=root_mean_square(truths) if len(truths) else None,
        error_cdf_area=_area(array, facts.naive_square),
        rmse_empirical=_rmse_empirical(tried, facts.empirical[at]),
        status={item.value: number for item, number in status.items() if number},
        positivity=wilson(status[Status.POSITIVITY], len(tried)),
        failure=wilson(len(tried) - status[Status.OK], len(tried)),
        warnings=_warnings(tried, facts.truth[at], facts.naive[at]),
        coverage=_coverage(tried, facts.expected[at]),
        withheld=_withheld(tried),
        support=_support(outcomes),
        cost=_cost(outcomes),
        diagnostics=_diagnostics(outcomes.diagnostics),
    )
    return RowStatistics(errors=array, imputed=imputed, tried=len(tried), figures=figures)


def _area(errors: FloatArray, limit: float | None) -> float | None:
    if not len(errors) or not limit:
        return None
    # A square that overflows exceeds the limit, too.
    with np.errstate(over="ignore"):
        return area_under_cdf(np.square(errors), limit)


def _rmse_empirical(outcomes: Outcomes, empirical: FloatArray) -> float | None:
    """Return the RMSE of finite estimates against the mean reward of their target samples."""
    errors = _errors(outcomes, empirical)
    known = errors[~np.isnan(errors)]
    return scaled_rms(known) if len(known) else None


def _impute(
    keys: Sequence[str], errors: Mapping[str, float], naive: Sequence[float]
) -> dict[str, float]:
    """Return errors by data key, in record order; failures have the logging average's."""
    imputed: dict[str, float] = {}
    for key, other in zip(keys, naive, strict=True):
        error = errors.get(key, other)
        if not math.isnan(error):
            imputed[key] = error
    return imputed


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
    normal = ErrorIntervals.normal(
        estimate, error, expected[ok], ess_fraction=outcomes.ess_fraction[ok]
    )
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


def _withheld(outcomes: Outcomes) -> Withheld:
    reasons = Counter(outcomes.withheld())
    return Withheld(count=reasons.total(), reasons=tuple(one for one, _ in reasons.most_common()))


def _support(outcomes: Outcomes) -> Support:
    return Support(
        **{one.name: _average(known_values(getattr(outcomes, one.name))) for one in _OF_SUPPORT}
    )


_OF_SUPPORT = fields(Support)


def _average(known: Sequence[float]) -> float | None:
    return _mean(known) if known else None


def _mean(values: Sequence[float]) -> float:
    direct = sum(values) / len(values)
    # The sum of finite numbers may overflow.
    return direct if math.isfinite(direct) else sum(value / len(values) for value in values)


def _cost(outcomes: Outcomes) -> Cost:
    """Summarize costs; seconds of trials that ran alone, since others are not comparable."""
    alone = outcomes.exclusive & outcomes.has(Status.OK)
    fit, estimate = outcomes.fit_seconds[alone], outcomes.estimate_seconds[alone]
    return Cost(
        fit_seconds=_median(known_values(fit)),
        estimate_seconds=_median(known_values(estimate)),
        seconds=_median(known_values(fit + estimate)),
        peak_rss_bytes=_median(known_values(outcomes.peak_rss_bytes)),
    )


def _median(known: Sequence[float]) -> float | None:
    return median(known) if known else None


def _diagnostics(diagnostics: DiagnosticColumn) -> dict[str, DiagnosticSummary]:
    numbers = diagnostics.finite_numbers()
    return {name: _summary_of_diagnostic(known.tolist()) for name, known in numbers.items()}


def _summary_of_diagnostic(values: Sequence[float]) -> DiagnosticSummary:
    return DiagnosticSummary(
        count=len(values),
        mean=_mean(values),
        median=median(values),
        minimum=min(values),
        maximum=max(values),
    )
