"""The records of one estimator on one setting, counted up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.records import Status, TrialRecord
from ope_bench.statistics.coverage import Coverage, Share, interval_coverage, wilson
from ope_bench.statistics.distribution import Summary, area_under_cdf, summarize

__all__ = ["Cell", "Facts", "Warnings", "error_of", "tally"]


@dataclass(frozen=True)
class Facts:
    """What any estimator's record tells about a replicate's data, by data key.

    A trial whose worker died knows neither truth nor logging average; its neighbours on the same
    data do.

    Parameters
    ----------
    truth : that errors are measured against.
    expected : the target policy's value.
    logging_average : mean logged reward.
    """

    truth: Mapping[str, float | None]
    expected: Mapping[str, float | None]
    logging_average: Mapping[str, float | None]

    @classmethod
    def of(cls, records: Iterable[TrialRecord], truth: Literal["empirical", "expected"]) -> Facts:
        """The facts that the records hold."""
        chosen: dict[str, float | None] = {}
        expected: dict[str, float | None] = {}
        average: dict[str, float | None] = {}
        for record in records:
            key = record.trial.data_key
            if chosen.get(key) is None:
                empirical = truth == "empirical"
                chosen[key] = record.truth_empirical if empirical else record.truth_expected
            if expected.get(key) is None:
                expected[key] = record.truth_expected
            if average.get(key) is None:
                average[key] = record.logging_average
        return cls(chosen, expected, average)

    @cached_property
    def naive_square(self) -> float | None:
        """Mean squared error of the logging average over all replicates."""
        errors = [self.naive_error(key) for key in self.truth]
        known = [error for error in errors if error is not None]
        return sum(error * error for error in known) / len(known) if known else None

    def naive_error(self, data_key: str) -> float | None:
        """Error of the logging average on a replicate."""
        average, truth = self.logging_average.get(data_key), self.truth.get(data_key)
        return None if average is None or truth is None else average - truth


@dataclass(frozen=True)
class Warnings:
    """Whether an estimator's own warnings were right.

    A warning (PositivityViolation) was right if the estimate it withheld, its ``fallback``, was
    further from the truth than the logging average of the same replicate, the estimate that
    takes no method at all.

    Parameters
    ----------
    warned : trials that ended in a warning.
    judged : those of them that carried a fallback.
    precision : share of judged warnings that were right.
    recall : share of the trials with so large an error that were warned of.
    """

    warned: int
    judged: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class Cell:
    """One row's figures that do not depend on other rows.

    Parameters
    ----------
    errors : (finite,), estimate minus truth, ordered by seed and replicate.
    imputed : error by data key, failures with the logging average's.
    imputations : how many of them.
    area : under the distribution of squared error, up to the logging average's mean square.
    tried : trials that were not unavailable.
    truth_rms : root mean square of the truth over finite trials.
    """

    errors: FloatArray
    imputed: Mapping[str, float]
    imputations: int
    tried: int
    area: float | None
    truth_rms: float | None
    status: Mapping[str, int]
    summary: Summary
    positivity: Share
    failure: Share
    warnings: Warnings
    coverage: Coverage
    support: Mapping[str, float | None]
    cost: Mapping[str, float | None]
    diagnostics: Mapping[str, float]


def error_of(record: TrialRecord, facts: Facts) -> float | None:
    """Error of a finite estimate; None for every other outcome."""
    truth = facts.truth.get(record.trial.data_key)
    if record.status is not Status.OK or record.estimate is None or truth is None:
        return None
    error = record.estimate - truth
    return error if math.isfinite(error) else None


def tally(records: Sequence[TrialRecord], facts: Facts) -> Cell:
    """Count up the records of one row."""
    records = sorted(records, key=lambda record: (record.trial.seed, record.trial.replicate))
    status = Counter(record.status for record in records)
    tried = [record for record in records if record.status is not Status.UNAVAILABLE]
    errors: dict[str, float] = {}
    imputed: dict[str, float] = {}
    imputations = 0
    for record in tried:
        key = record.trial.data_key
        error = error_of(record, facts)
        if error is not None:
            errors[key] = imputed[key] = error
            continue
        naive = facts.naive_error(key)
        if naive is not None:
            imputed[key] = naive
            imputations += 1
    array = np.fromiter(errors.values(), np.float64)
    limit = facts.naive_square
    truths = np.array([facts.truth[key] for key in errors], dtype=np.float64)
    return Cell(
        array,
        imputed,
        imputations,
        len(tried),
        area_under_cdf(np.square(array), limit) if len(array) and limit else None,
        float(np.sqrt(np.square(truths).mean())) if len(truths) else None,
        {word.value: status[word] for word in Status if status[word]},
        summarize(array),
        wilson(status[Status.POSITIVITY], len(tried)),
        wilson(len(tried) - status[Status.OK], len(tried)),
        _warnings(tried, facts),
        _coverage(tried, facts),
        _support(records),
        _cost(records),
        _diagnostics(records),
    )


def _warnings(records: Iterable[TrialRecord], facts: Facts) -> Warnings:
    warned = judged = right = missed = 0
    for record in records:
        key = record.trial.data_key
        violation = record.status is Status.POSITIVITY
        warned += violation
        said = record.fallback if violation else record.estimate
        truth, naive = facts.truth.get(key), facts.naive_error(key)
        if said is None or truth is None or naive is None:
            continue
        large = abs(said - truth) > abs(naive)
        judged += violation
        right += violation and large
        missed += large and not violation
    return Warnings(
        warned,
        judged,
        right / judged if judged else None,
        # Warnings without a fallback may have been right too; then recall is unknown.
        right / (right + missed) if right + missed and judged == warned else None,
    )


def _coverage(records: Sequence[TrialRecord], facts: Facts) -> Coverage:
    rows = [
        (record.estimate, record.standard_error, facts.expected.get(record.trial.data_key))
        for record in records
        if record.status is Status.OK
    ]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
    return interval_coverage(table[:, 0], table[:, 1], table[:, 2])


SUPPORT = (
    "unsupported_mass",
    "observed_unsupported_mass",
    "n_logged_actions",
    "n_target_actions",
    "ess_fraction",
    "max_weight_share",
)


def _support(records: Sequence[TrialRecord]) -> dict[str, float | None]:
    return {name: _average(getattr(record, name) for record in records) for name in SUPPORT}


def _average(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cost(records: Sequence[TrialRecord]) -> dict[str, float | None]:
    """Seconds of trials that ran alone only: others would be wrong rather than missing."""
    alone = [record for record in records if record.exclusive and record.status is Status.OK]
    fit = [record.fit_seconds for record in alone]
    estimate = [record.estimate_seconds for record in alone]
    both = [
        one + two
        for one, two in zip(fit, estimate, strict=True)
        if one is not None and two is not None
    ]
    return {
        "fit_seconds": _median(fit),
        "estimate_seconds": _median(estimate),
        "seconds": _median(both),
        "peak_rss_bytes": _median([record.peak_rss_bytes for record in records]),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return float(np.median(known)) if known else None


def _diagnostics(records: Sequence[TrialRecord]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.diagnostics.items():
            if isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(name, []).append(float(value))
    return {name: float(np.median(values)) for name, values in found.items()}
