"""Boards and their rows: a row for each estimator, a board for each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ope_bench.contracts.data import TruthKind
from ope_bench.contracts.random import ProblemSampling
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.coverage import Coverage, Share
from ope_bench.statistics.error_distribution import ErrorSummary

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
    """

    rank: int | None = None
    access: tuple[str, ...]
    threads: int
    origin: str

    @property
    def key(self) -> tuple[str, str, int]:
        """Identity of the row among those of one setting: spec, device and threads."""
        return self.spec.identity_json, self.device, self.threads

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
    """

    by: By
    spec: PluginSpec
    environment_origin: str
    truth: TruthKind
    truth_se: float | None
    truth_rms: float | None
    label: str = ""
    rows: tuple[Row, ...] = ()

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

    def facts(self) -> dict[str, Any]:
        """Return the board's facts of its setting, as plain JSON."""
        names = (
            *("by", "environment", "environment_params", "environment_origin"),
            *("environment_version", "worlds", "truth", "truth_se", "truth_rms", "label"),
        )
        facts = {name: getattr(self, name) for name in names}
        return facts | {"environment_params": dict(self.environment_params)}
