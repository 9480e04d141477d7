"""Boards and their rows: a row for each estimator, a board for each setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from statistics import median
from typing import Any, Literal

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.random import ProblemSampling
from ope_bench.outcomes import STATUSES, Outcomes, Sources
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.coverage import Coverage, ErrorIntervals, Share, wilson
from ope_bench.statistics.error_distribution import (
    ErrorSummary,
    area_under_cdf,
    root_mean_square,
    scaled_rms,
    summarize,
)
from ope_bench.trials.status import Status

By = Literal["rmse", "positivity", "coverage", "time", "ratio", "balance"]

_RATIO_MEASURES = ("target_log_ratio_rmse", "log_ratio_rmse", "kl_error")
"""Diagnostics by which estimated density ratios are ranked, the first that exists.

Target rows come first: among the logs, a true log-ratio of -70 and an estimate of -20 both mean a
weight of practically zero, yet their difference would dominate all errors that matter.
"""


MOSTLY_FAILED = 0.5
"""Share of failed trials above which a row has no rank and is marked."""


@dataclass(frozen=True, kw_only=True)
class Warnings:
    """Accuracy of an estimator's own warnings.

    A warning (PositivityViolation) was right if the estimate it withheld, its ``fallback``, was
    further from the truth than the logging average of the same replicate, the naive estimate.

    Parameters
    ----------
    warned : trials that ended in a warning.
    judged : those of them that have a fallback.
    precision : share of judged warnings that were right.
    recall : share of trials with such a large error in which the estimator warned.
    """

    warned: int
    judged: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """Trials with an estimate whose standard error the estimator withheld.

    Parameters
    ----------
    count : such trials.
    reasons : in the estimator's words, the most frequent first.
    """

    count: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RowSupport:
    """Support of the target policy by the logs; means over replicates.

    Parameters
    ----------
    unsupported_mass ... max_weight_share : see `ope_bench.trials.record.TrialRecord`.
    """

    unsupported_mass: float | None
    observed_unsupported_mass: float | None
    n_logged_actions: float | None
    n_target_actions: float | None
    ess_fraction: float | None
    max_weight_share: float | None


@dataclass(frozen=True, kw_only=True)
class RowCost:
    """Cost of a trial; medians over replicates.

    Parameters
    ----------
    fit_seconds, estimate_seconds, seconds : of trials that ran alone; ``seconds`` is their sum.
    peak_rss_bytes : largest memory during the trial.
    """

    fit_seconds: float | None
    estimate_seconds: float | None
    seconds: float | None
    peak_rss_bytes: float | None


@dataclass(frozen=True, kw_only=True)
class DiagnosticSummary:
    """Statistics of one diagnostic over the replicates that have it.

    Parameters
    ----------
    count : number of replicates with a finite value.
    """

    count: int
    mean: float
    median: float
    minimum: float
    maximum: float


@dataclass(frozen=True, kw_only=True)
class RowValues:
    """Statistics of one row that do not depend on other rows.

    Parameters
    ----------
    replicates : number of trials.
    errors : summary of the finite errors.
    imputed : number of failures that are counted with the logging average's error.
    truth_rms : root mean square of the truth over finite trials.
    error_cdf_area : area under the distribution function of squared error, up to the logging
        average's mean square, divided by it; 1 is perfect.
    rmse_empirical : RMSE against V_s, the mean reward of the replicate's target sample.
    relative_error : mean of |error| / |truth|; None where a truth is 0.
    status : trials by status.
    positivity : share of PositivityViolation among trials that are not unavailable.
    failure : share of all statuses but ok and unavailable among trials that are not unavailable.
    coverage : of 95 % intervals, against the expected truth.
    withheld : standard errors that the estimator withheld.
    diagnostics : the estimator's own numbers by name.
    """

    replicates: int
    errors: ErrorSummary
    imputed: int
    truth_rms: float | None
    error_cdf_area: float | None
    rmse_empirical: float | None
    status: Mapping[str, int]
    positivity: Share
    failure: Share
    warnings: Warnings
    coverage: Coverage
    withheld: Withheld
    support: RowSupport
    cost: RowCost
    diagnostics: Mapping[str, DiagnosticSummary]
    relative_error: float | None = None

    @property
    def mostly_failed(self) -> bool:
        """Whether more than half of the trials gave no estimate, unavailable ones aside."""
        return (self.failure.value or 0.0) > MOSTLY_FAILED


@dataclass(frozen=True, kw_only=True)
class RowInterval:
    """A statistic with its 95 % interval; None where undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class JointValues:
    """Statistics of one row that need all rows of the board.

    Parameters
    ----------
    rmse : over finite trials; no interval where replicates are too few.
    heavy_tailed : one replicate has a larger share of the squared error than in 99 % of rows with
        normal errors.
    score : RMSE in which failures count with the logging average's error.
    tied : the score does not differ significantly from the best (paired swap test, Holm, 5 %),
        although a score larger by half would have; None where such a difference would have been
        missed too.
    detectable : growth of the score over the best that the comparison detects with power 0.8; None
        for the best row, and where it is not finite.
    """

    rmse: RowInterval
    heavy_tailed: bool
    score: float | None
    tied: bool | None
    detectable: float | None


@dataclass(frozen=True, kw_only=True)
class EstimatorRow:
    """One estimator on one device.

    Parameters
    ----------
    spec : the estimator with its parameters.
    label : the id with the parameters in which rows of the same id differ.
    """

    spec: PluginSpec
    label: str
    device: str

    @property
    def estimator(self) -> str:
        """Id of the estimator."""
        return self.spec.id

    @property
    def params(self) -> Mapping[str, Any]:
        """All parameters of the estimator."""
        return self.spec.params


@dataclass(frozen=True, kw_only=True)
class Row(RowValues, JointValues, EstimatorRow):
    """One estimator on one setting; None where a statistic is undefined.

    Parameters
    ----------
    rank : rank by the board's measure; equal values share a rank.
    access : flags that the estimator declared.
    origin : distribution and version of the estimator's plugin, or its file.
    codes : how many digests of code the trials have.
    sources : what tells the code of the trials.
    machines : processors that ran the timed trials.
    shares_settings : where settings are averaged, whether it ran in all of them, so that rows of
        which this is true are compared on the same data.
    """

    rank: int | None = None
    access: tuple[str, ...]
    threads: int
    origin: str
    codes: int = 1
    sources: Sources = field(default=Sources(), compare=False)
    machines: tuple[str, ...] = field(default=(), compare=False)
    shares_settings: bool = True

    @property
    def key(self) -> tuple[str, str, int]:
        """Identity of the row among those of one setting: spec, device and threads."""
        return self.spec.identity_json, self.device, self.threads

    @property
    def processors(self) -> tuple[str, ...]:
        """Processors that ran the timed trials; a cluster has several."""
        return tuple(sorted({name for one in self.machines for name in one.split(", ") if name}))

    @property
    def machine(self) -> str:
        """Names of these processors."""
        return ", ".join(self.processors)

    @property
    def finite(self) -> int:
        """Number of trials with a finite estimate."""
        return self.errors.n

    @property
    def log10_rmse(self) -> float | None:
        """Decimal logarithm of the RMSE."""
        return math.log10(self.rmse.value) if self.rmse.value else None

    @property
    def relative_rmse(self) -> float | None:
        """RMSE over the root mean square of the truth."""
        rmse, truth = self.rmse.value, self.truth_rms
        return rmse / truth if rmse is not None and truth else None

    @property
    def ratio_measure(self) -> str | None:
        """The diagnostic by which the estimated density ratio is ranked."""
        return next((name for name in _RATIO_MEASURES if name in self.diagnostics), None)

    @property
    def ratio_error(self) -> float | None:
        """Median error of the estimated density ratio, where the true ratio is known."""
        measure = self.ratio_measure
        return self.diagnostics[measure].median if measure else None


@dataclass(frozen=True, kw_only=True)
class Board:
    """The rows of one setting of an environment, for one measure and one kind of truth.

    Parameters
    ----------
    by : the measure that orders the rows.
    spec : the environment with its parameters.
    environment_origin : distribution of the environment, and its data.
    truth : the value against which errors are measured.
    truth_se : root mean square of the expected truth's Monte Carlo standard error.
    truth_rms : root mean square of the truth over replicates.
    label : the environment's id with the parameters in which settings of the same id differ.
    left_out : estimators that ran on data which the environment draws no more.
    """

    by: By
    spec: PluginSpec
    environment_origin: str
    truth: TruthKind
    truth_se: float | None
    truth_rms: float | None
    label: str = ""
    rows: tuple[Row, ...] = ()
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<board of {self.label or self.environment} by {self.by}: {len(self.rows)} rows>"

    @property
    def environment(self) -> str:
        """Id of the environment."""
        return self.spec.id

    @property
    def environment_params(self) -> Mapping[str, Any]:
        """All parameters of the environment."""
        return self.spec.params

    @property
    def environment_version(self) -> int:
        """Version of the environment, which counts changes that alter numbers."""
        return self.spec.version

    @property
    def worlds(self) -> ProblemSampling:
        """Sampling of the problem: redrawn in each replicate, or fixed for all."""
        return self.spec.worlds

    @property
    def decided(self) -> bool:
        """Whether any row could be told from the best, or called equal to it."""
        return any(row.tied is not None for row in self.rows if row.rank and row.rank > 1)

    def facts(self) -> dict[str, Any]:
        """Return the board's facts of its setting, as plain JSON."""
        names = (
            *("by", "environment", "environment_params", "environment_origin"),
            *("environment_version", "worlds", "truth", "truth_se", "truth_rms", "label"),
        )
        facts = {name: getattr(self, name) for name in names}
        facts |= {"left_out": list(self.left_out)} if self.left_out else {}
        return facts | {"environment_params": dict(self.environment_params)}


# Aggregate the outcomes of one estimator on one setting.


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
