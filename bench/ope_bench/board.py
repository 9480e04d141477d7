"""What a board is: one row an estimator, every figure with its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

__all__ = ["Board", "By", "Row", "TruthKind"]

By = Literal["rmse", "positivity", "time", "ratio"]
TruthKind = Literal["empirical", "expected"]


@dataclass(frozen=True)
class Row:
    """One estimator on one setting; None where a figure does not exist.

    Parameters
    ----------
    rank : by score (rmse), failure rate (positivity), seconds (time) or ratio error (ratio);
        equal values share a rank.
    replicates, finite : trials, and those among them with a finite estimate.
    rmse, rmse_low, rmse_high : over finite trials, with a 95 % interval; no interval for rows
        that are ``heavy_tailed`` or have too few replicates.
    relative_rmse : ``rmse`` over the root mean square of the truth.
    score : RMSE with each of the ``imputed`` failures counted at the logging average's error.
    tied : cannot be told from the best score (paired swap test, Holm, 5 %).
    quantiles : of the absolute error, at .05, .25, .5, .75, .95.
    cvar : mean of the worst tenth of squared errors.
    error_cdf_area : area under the distribution function of squared error, up to the logging
        average's mean square and over it; 1 is perfect.
    coverage, interval_width : of 95 % intervals, against the expected truth.
    failure_rate : every status but ok and unavailable, of all but unavailable.
    warned, warning_precision, warning_recall : of PositivityViolation, judged on its fallback
        against the logging average's error on the same replicate.
    unsupported_mass ... max_weight_share : means over replicates.
    fit_seconds, estimate_seconds, seconds : medians over trials that ran alone.
    ratio_error, ratio_measure : of the estimated density ratio, where the truth is known.
    diagnostics : medians of the estimator's own numbers.
    """

    rank: int | None
    estimator: str
    label: str
    params: Mapping[str, Any]
    access: tuple[str, ...]
    device: str
    threads: int
    origin: str
    replicates: int
    finite: int
    rmse: float | None
    rmse_low: float | None
    rmse_high: float | None
    heavy_tailed: bool
    log10_rmse: float | None
    relative_rmse: float | None
    score: float | None
    imputed: int
    bias: float | None
    sd: float | None
    median_absolute_error: float | None
    quantiles: tuple[float, ...]
    worst: float | None
    cvar: float | None
    error_cdf_area: float | None
    tied: bool
    status: Mapping[str, int]
    positivity_rate: float | None
    failure_rate: float | None
    failure_low: float | None
    failure_high: float | None
    warned: int
    warnings_judged: int
    warning_precision: float | None
    warning_recall: float | None
    coverage: float | None
    coverage_low: float | None
    coverage_high: float | None
    interval_width: float | None
    unsupported_mass: float | None
    observed_unsupported_mass: float | None
    n_logged_actions: float | None
    n_target_actions: float | None
    ess_fraction: float | None
    max_weight_share: float | None
    fit_seconds: float | None
    estimate_seconds: float | None
    seconds: float | None
    peak_rss_bytes: float | None
    ratio_error: float | None
    ratio_measure: str | None
    diagnostics: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """The row as plain JSON."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("params", "status", "diagnostics"):
            plain[name] = dict(plain[name])
        return plain | {"access": list(self.access), "quantiles": list(self.quantiles)}


@dataclass(frozen=True)
class Board:
    """One setting of one environment, one question, one kind of truth."""

    by: By
    environment: str
    environment_params: Mapping[str, Any]
    environment_origin: str
    environment_version: int
    worlds: str
    truth: TruthKind
    truth_se: float | None
    truth_rms: float | None
    label: str
    rows: tuple[Row, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The board as plain JSON."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain["environment_params"] = dict(self.environment_params)
        return plain | {"rows": [row.as_json() for row in self.rows]}
