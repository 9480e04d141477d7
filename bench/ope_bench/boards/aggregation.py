"""Aggregate the records of one estimator on one setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.statistics.coverage import Coverage, ErrorIntervals, wilson
from ope_bench.statistics.distribution import (
    area_under_cdf,
    root_mean_square,
    summarize,
)
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Status

__all__ = [
    "ReplicateFacts",
    "RowStatistics",
    "aggregate",
    "error_of",
]


@dataclass(frozen=True)
class ReplicateFacts:
    """Facts of replicates' data, by data key, taken from the records of all estimators.

    The record of a trial whose worker died lacks truth and logging average; records of other
    estimators on the same data have them.

    Parameters
    ----------
    truth : the value against which errors are measured.
    expected : the target policy's value.
    empirical : mean reward of the target sample.
    logging_average : mean logged reward.
    """

    truth: Mapping[str, float | None]
    expected: Mapping[str, float | None]
    empirical: Mapping[str, float | None]
    logging_average: Mapping[str, float | None]

    @classmethod
    def of(cls, records: Iterable[TrialRecord], truth: TruthKind) -> ReplicateFacts:
        """Collect the facts from records."""
        expected: dict[str, float | None] = {}
        empirical: dict[str, float | None] = {}
        average: dict[str, float | None] = {}
        for record in records:
            key = record.trial.data_key
            if expected.get(key) is None:
                expected[key] = record.truth_expected
            if empirical.get(key) is None:
                empirical[key] = record.truth_empirical
            if average.get(key) is None:
                average[key] = record.logging_average
        chosen = empirical if truth == "empirical" else expected
        return cls(chosen, expected, empirical, average)

    @cached_property
    def naive_square(self) -> float | None:
        """Return the mean squared error of the logging average over all replicates."""
        errors = [self.naive_error(key) for key in self.truth]
        known = [error for error in errors if error is not None]
        return sum(error * error for error in known) / len(known) if known else None

    def naive_error(self, data_key: str) -> float | None:
        """Return the error of the logging average on a replicate."""
        average, truth = self.logging_average.get(data_key), self.truth.get(data_key)
        return None if average is None or truth is None else average - truth


@dataclass(frozen=True, kw_only=True)
class RowStatistics:
    """One row before the comparison with others: its statistics and its single errors.

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


def error_of(record: TrialRecord, facts: ReplicateFacts) -> float | None:
    """Return the error of a finite estimate; None for every other outcome."""
    return _error(record, facts.truth.get(record.trial.data_key))


def _error(record: TrialRecord, truth: float | None) -> float | None:
    if record.status is not Status.OK or record.estimate is None or truth is None:
        return None
    error = record.estimate - truth
    return error if math.isfinite(error) else None


def aggregate(records: Sequence[TrialRecord], facts: ReplicateFacts) -> RowStatistics:
    """Aggregate the records of one row."""
    records = sorted(records, key=lambda record: (record.trial.seed, record.trial.replicate))
    status = Counter(record.status for record in records)
    tried = [record for record in records if record.status.tried]
    errors = {
        record.trial.data_key: error
        for record in tried
        if (error := error_of(record, facts)) is not None
    }
    imputed = _impute(tried, errors, facts)
    array = np.fromiter(errors.values(), np.float64)
    truths = np.array([facts.truth[key] for key in errors], dtype=np.float64)
    figures = RowFigures(
        replicates=len(records),
        errors=summarize(array),
        imputed=len(imputed) - len(errors),
        truth_rms=root_mean_square(truths) if len(truths) else None,
        error_cdf_area=_area(array, facts.naive_square),
        rmse_empirical=_rmse_empirical(tried, facts),
        status={item.value: status[item] for item in Status if status[item]},
        positivity=wilson(status[Status.POSITIVITY], len(tried)),
        failure=wilson(len(tried) - status[Status.OK], len(tried)),
        warnings=_warnings(tried, facts),
        coverage=_coverage(tried, facts),
        withheld=_withheld(tried),
        support=_support(records),
        cost=_cost(records),
        diagnostics=_diagnostics(records),
    )
    return RowStatistics(errors=array, imputed=imputed, tried=len(tried), figures=figures)


def _area(errors: FloatArray, limit: float | None) -> float | None:
    if not len(errors) or not limit:
        return None
    # A square that overflows exceeds the limit, too.
    with np.errstate(over="ignore"):
        return area_under_cdf(np.square(errors), limit)


def _rmse_empirical(records: Iterable[TrialRecord], facts: ReplicateFacts) -> float | None:
    """Return the RMSE of finite estimates against the mean reward of their target samples."""
    errors = (_error(record, facts.empirical.get(record.trial.data_key)) for record in records)
    known = [error for error in errors if error is not None]
    return summarize(np.array(known, dtype=np.float64)).rmse


def _impute(
    records: Iterable[TrialRecord], errors: Mapping[str, float], facts: ReplicateFacts
) -> dict[str, float]:
    """Return errors by data key, in record order; failures have the logging average's."""
    imputed: dict[str, float] = {}
    for record in records:
        key = record.trial.data_key
        error = errors[key] if key in errors else facts.naive_error(key)
        if error is not None:
            imputed[key] = error
    return imputed


def _warnings(records: Iterable[TrialRecord], facts: ReplicateFacts) -> Warnings:
    warned = judged = right = missed = 0
    for record in records:
        key = record.trial.data_key
        violation = record.status is Status.POSITIVITY
        warned += violation
        value = record.fallback if violation else record.estimate
        truth, naive = facts.truth.get(key), facts.naive_error(key)
        if value is None or truth is None or naive is None:
            continue
        large = abs(value - truth) > abs(naive)
        judged += violation
        right += violation and large
        missed += large and not violation
    # Without a fallback it is unknown whether the warning was right, and so is recall.
    known = right + missed and judged == warned
    return Warnings(
        warned=warned,
        judged=judged,
        precision=right / judged if judged else None,
        recall=right / (right + missed) if known else None,
    )


def _coverage(records: Sequence[TrialRecord], facts: ReplicateFacts) -> Coverage:
    """Coverage of the estimators' own intervals, else of the normal ones of standard errors."""
    rows = [
        (
            record.estimate,
            record.standard_error,
            facts.expected.get(record.trial.data_key),
            record.ess_fraction,
            record.interval_low,
            record.interval_high,
            record.interval_level,
        )
        for record in records
        if record.status is Status.OK
    ]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 7)
    estimate, error, truth, ess, low, high, level = table.T
    normal = ErrorIntervals.normal(estimate, error, truth, ess_fraction=ess)
    own = np.isfinite(low)
    found = replace(
        normal,
        down=np.where(own, estimate - low, normal.down),
        up=np.where(own, high - estimate, normal.up),
        level=np.where(own, level, normal.level),
    ).coverage()
    kinds = {kind for record in records if (kind := _interval_kind(record)) is not None}
    return replace(found, kind=", ".join(sorted(kinds)))


def _interval_kind(record: TrialRecord) -> str | None:
    if record.status is not Status.OK:
        return None
    return record.interval_kind or (None if record.standard_error is None else "asymptotic")


def _withheld(records: Iterable[TrialRecord]) -> Withheld:
    reasons = Counter(record.withheld for record in records if record.withheld)
    return Withheld(count=reasons.total(), reasons=tuple(one for one, _ in reasons.most_common()))


def _support(records: Sequence[TrialRecord]) -> Support:
    names = [field.name for field in fields(Support)]
    return Support(
        **{name: _average(getattr(record, name) for record in records) for name in names}
    )


def _average(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return _mean(known) if known else None


def _mean(values: Sequence[float]) -> float:
    direct = sum(values) / len(values)
    # The sum of finite numbers may overflow.
    return direct if math.isfinite(direct) else sum(value / len(values) for value in values)


def _cost(records: Sequence[TrialRecord]) -> Cost:
    """Summarize costs; seconds of trials that ran alone, since others are not comparable."""
    alone = [record for record in records if record.exclusive and record.status is Status.OK]
    fit = [record.fit_seconds for record in alone]
    estimate = [record.estimate_seconds for record in alone]
    both = [
        fit_seconds + estimate_seconds
        for fit_seconds, estimate_seconds in zip(fit, estimate, strict=True)
        if fit_seconds is not None and estimate_seconds is not None
    ]
    return Cost(
        fit_seconds=_median(fit),
        estimate_seconds=_median(estimate),
        seconds=_median(both),
        peak_rss_bytes=_median([record.peak_rss_bytes for record in records]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return float(np.median(known)) if known else None


def _diagnostics(records: Sequence[TrialRecord]) -> dict[str, DiagnosticSummary]:
    values: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.diagnostics.items():
            if isinstance(value, int | float) and (number := _finite(value)) is not None:
                values.setdefault(name, []).append(number)
    return {name: _summary_of_diagnostic(known) for name, known in values.items()}


def _finite(value: float | int) -> float | None:
    try:
        number = float(value)
    except OverflowError:  # an integer of an older store
        return None
    return number if math.isfinite(number) else None


def _summary_of_diagnostic(values: Sequence[float]) -> DiagnosticSummary:
    return DiagnosticSummary(
        count=len(values),
        mean=_mean(values),
        median=float(np.median(values)),
        minimum=min(values),
        maximum=max(values),
    )
