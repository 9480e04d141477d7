"""The figures of one row of a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ope_bench.statistics.coverage import Coverage, Share
from ope_bench.statistics.distribution import Summary

__all__ = [
    "Cost",
    "DiagnosticSummary",
    "RowFigures",
    "Support",
    "Warnings",
    "Withheld",
]


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
class Support:
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
class Cost:
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
class RowFigures:
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
    status : trials by status.
    positivity : share of PositivityViolation among trials that are not unavailable.
    failure : share of all statuses but ok and unavailable among trials that are not unavailable.
    coverage : of 95 % intervals, against the expected truth.
    withheld : standard errors that the estimator withheld.
    diagnostics : the estimator's own numbers by name.
    """

    replicates: int
    errors: Summary
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
    support: Support
    cost: Cost
    diagnostics: Mapping[str, DiagnosticSummary]
