"""The built-in columns of boards, with headings and explanations.

Terminal, Markdown, LaTeX, CSV, JSON and the HTML page all use this table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ope_bench.boards.board import Board, By
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.boards.columns.coverage import COVERAGE, COVERAGE_DETAILS, DERIVED_COVERAGE
from ope_bench.boards.columns.emphasis import (
    DOUBTFUL,
    HEAVY,
    failure_style,
    has_doubtful_weights,
    interval_style,
    tied_style,
)
from ope_bench.boards.columns.makers import (
    count,
    flag,
    json_value,
    number,
    percent,
    seconds,
    text,
)
from ope_bench.boards.columns.settings import SETTING_COLUMNS

__all__ = [
    "COLUMNS",
    "JSON_COLUMNS",
    "as_json",
    "json_columns",
]


def _pair(low: float | None, high: float | None) -> tuple[float, float] | None:
    """Return an interval; an upper end that overflows becomes infinite."""
    return None if low is None else (low, math.inf if high is None else high)


def _any_imputed(board: Board) -> bool:
    """Return whether scores differ from RMSEs."""
    return any(row.imputed for row in board.rows)


def _against_value(board: Board) -> bool:
    """Return whether errors are measured against the policy's value rather than V_s."""
    return board.truth == "expected"


def _any_warned(board: Board) -> bool:
    return any(row.warnings.warned for row in board.rows)


IDENTITY = (
    count("rank", "#", "place in the order of the board", lambda row: row.rank),
    number(
        "estimator",
        "",
        "estimator; in CSV the id alone",
        lambda row: row.estimator,
        style=tied_style,
        format="estimator",
    ),
    text("label", "", "the id with what tells rows apart", lambda row: row.label),
    json_value("params", "parameters", "all parameters", lambda row: dict(row.params)),
    number(
        "access",
        "",
        "data that the estimator uses beyond samples",
        lambda row: list(row.access),
        drop=10,
        format="access",
    ),
    text("device", "", "where it ran", lambda row: row.device),
    count("threads", "", "threads a trial", lambda row: row.threads),
    text("origin", "", "the plugin's distribution or file", lambda row: row.origin),
    count("replicates", "n", "trials", lambda row: row.replicates),
    count("finite", "", "trials with a finite estimate", lambda row: row.finite),
)

ERRORS = (
    number(
        "rmse",
        "RMSE",
        "root mean square error over the trials with an estimate",
        lambda row: row.rmse.value,
        style=tied_style,
    ),
    number("rmse_low", "RMSE low", "lower end of its 95 % interval", lambda row: row.rmse.low),
    number("rmse_high", "RMSE high", "upper end of its 95 % interval", lambda row: row.rmse.high),
    flag(
        "heavy_tailed",
        "",
        "one replicate has a larger share of the squared error than normal errors would",
        lambda row: row.heavy_tailed,
    ),
    number(
        "rmse_empirical",
        "RMSE V_s",
        "RMSE against V_s, the mean reward of the target sample: favors estimators that use it",
        lambda row: row.rmse_empirical,
        informative=_against_value,
        drop=4,
    ),
    number("log10_rmse", "log10", "decimal logarithm of the RMSE", lambda row: row.log10_rmse),
    number(
        "relative_rmse",
        "RMSE/V",
        "RMSE over the root mean square of the truth",
        lambda row: row.relative_rmse,
        drop=3,
    ),
    number(
        "score",
        "score",
        "RMSE in which failures count with the logging average's error; orders the ranks",
        lambda row: row.score,
        informative=_any_imputed,
    ),
    count("imputed", "", "failures that the score imputes", lambda row: row.imputed),
    number("bias", "bias", "mean error", lambda row: row.errors.bias, drop=5),
    number("sd", "sd", "standard deviation of the errors", lambda row: row.errors.sd),
    number(
        "median_absolute_error",
        "median",
        "median absolute error",
        lambda row: row.errors.median_absolute_error,
        drop=11,
    ),
    json_value(
        "quantiles",
        "",
        "quantiles of the absolute error, at .05, .25, .5, .75, .95",
        lambda row: list(row.errors.quantiles),
    ),
    number("worst", "worst", "largest absolute error", lambda row: row.errors.worst),
    number("cvar", "CVaR", "mean of the worst tenth of squared errors", lambda r: r.errors.cvar),
    number(
        "error_cdf_area",
        "CDF area",
        "area under the distribution of squared error up to the logging average's; 1 is perfect",
        lambda row: row.error_cdf_area,
    ),
    flag("tied", "", "cannot be told from the best score", lambda row: row.tied),
    percent(
        "detectable",
        "unseen",
        "largest growth over the best score that could have been missed",
        lambda row: row.detectable,
    ),
)

FAILURES = (
    number(
        "status",
        "statuses",
        "trials without an estimate, by status",
        lambda row: dict(row.status),
        style=failure_style,
        format="status",
    ),
    percent(
        "positivity_rate",
        "positivity",
        "share of trials that ended in PositivityViolation",
        lambda row: row.positivity.value,
    ),
    percent(
        "failure_rate",
        "fail",
        "share of trials that neither gave an estimate nor were unavailable",
        lambda row: row.failure.value,
        style=failure_style,
    ),
    percent(
        "failure_low",
        "fail low",
        "lower end of its 95 % interval",
        lambda row: row.failure.low,
    ),
    percent(
        "failure_high",
        "fail high",
        "upper end of its 95 % interval",
        lambda row: row.failure.high,
    ),
    count("warned", "", "PositivityViolations raised", lambda row: row.warnings.warned),
    count(
        "warnings_judged",
        "judged",
        "PositivityViolations with a fallback, which shows whether they were right",
        lambda row: row.warnings.judged,
    ),
    percent(
        "warning_precision",
        "prec",
        "share of its PositivityViolations that were right",
        lambda row: row.warnings.precision,
        informative=_any_warned,
        drop=7,
    ),
    percent(
        "warning_recall",
        "rec",
        "share of its large errors with a warning",
        lambda row: row.warnings.recall,
        informative=_any_warned,
        drop=6,
    ),
)

SUPPORT = (
    percent(
        "unsupported_mass",
        "unsupported",
        "target mass without support under the true logging policy",
        lambda row: row.support.unsupported_mass,
    ),
    percent(
        "observed_unsupported_mass",
        "never logged",
        "share of target actions that were never logged",
        lambda row: row.support.observed_unsupported_mass,
    ),
    number(
        "n_logged_actions",
        "d0",
        "number of distinct logged actions",
        lambda row: row.support.n_logged_actions,
    ),
    number(
        "n_target_actions",
        "d1",
        "number of distinct actions in the target sample",
        lambda row: row.support.n_target_actions,
    ),
    number(
        "ess_fraction",
        "ESS/n",
        "effective sample size of the weights, divided by the number of rows",
        lambda row: row.support.ess_fraction,
    ),
    number(
        "max_weight_share",
        "max w",
        "largest weight over the sum of weights",
        lambda row: row.support.max_weight_share,
        mark=DOUBTFUL,
        drop=8,
    ),
)

COST = (
    seconds(
        "fit_seconds",
        "fit",
        "median seconds of fit in trials that ran alone",
        lambda row: row.cost.fit_seconds,
    ),
    seconds(
        "estimate_seconds",
        "estimate",
        "median seconds of estimate in trials that ran alone",
        lambda row: row.cost.estimate_seconds,
    ),
    seconds(
        "seconds",
        "both",
        "median seconds of fit and estimate in trials that ran alone",
        lambda row: row.cost.seconds,
    ),
    number(
        "peak_rss_bytes",
        "memory",
        "median of the peak memory during a trial",
        lambda row: row.cost.peak_rss_bytes,
        drop=9,
        format="bytes",
    ),
)

RATIO = (
    number(
        "ratio_error",
        "ratio error",
        "median error of the estimated density ratio",
        lambda row: row.ratio_error,
    ),
    text(
        "ratio_measure",
        "measure",
        "diagnostic that is shown as the ratio error",
        lambda row: row.ratio_measure,
    ),
    json_value(
        "diagnostics",
        "",
        "medians of the estimator's diagnostics",
        lambda row: {name: one.median for name, one in row.diagnostics.items()},
    ),
)

JSON_COLUMNS = (*IDENTITY, *ERRORS, *FAILURES, *COVERAGE, *SUPPORT, *COST, *RATIO)
"""The keys of a row in ``leaderboard --format json``, in their order."""


def _diagnostic(name: str, title: str, explanation: str) -> BoardColumn:
    return BoardColumn.from_diagnostic(
        name,
        statistic="median",
        title=title,
        explanation=f"{explanation}, median",
        hide_empty=False,
        drop=None,
    )


BALANCE = (
    _diagnostic("smd_after", "SMD", "largest standardized mean difference of the weighted logs"),
    _diagnostic("smd_before", "SMD logs", "largest standardized mean difference of the logs"),
    _diagnostic("mmd_after", "MMD", "kernel distance of the weighted logs to the target sample"),
    _diagnostic("mmd_before", "MMD logs", "kernel distance of the logs to the target sample"),
)
"""Further figures, in JSON and CSV of boards by balance."""

DERIVED = (
    number(
        "rmse_interval",
        "95 % interval",
        "95 % interval of the RMSE",
        lambda row: _pair(row.rmse.low, row.rmse.high),
        mark=HEAVY,
        style=interval_style,
        drop=4,
    ),
    percent(
        "failure_interval",
        "95 % interval",
        "95 % interval of the share of failures",
        lambda row: _pair(row.failure.low, row.failure.high),
    ),
    *DERIVED_COVERAGE,
    flag("concentrated", "", DOUBTFUL.explanation, has_doubtful_weights),
    _diagnostic("log_ratio_rmse", "logged", "RMSE of the log-ratio at logged rows"),
    _diagnostic("kl_estimate", "KL", "estimated Kullback-Leibler divergence"),
    _diagnostic("kl_true", "true KL", "Kullback-Leibler divergence"),
    _diagnostic("mean_weight", "mean w", "mean weight, about 1 for correct weights"),
    _diagnostic("auc", "AUC", "area under the classifier's ROC curve on held-out rows"),
    _diagnostic("log_loss", "log loss", "log-loss on held-out rows (0.693 is chance)"),
)


COLUMNS: Mapping[str, BoardColumn] = MappingProxyType(
    {
        column.key: column
        for column in (*JSON_COLUMNS, *COVERAGE_DETAILS, *BALANCE, *DERIVED, *SETTING_COLUMNS)
    }
)
"""The built-in columns by key."""


FURTHER_COLUMNS: Mapping[By, tuple[BoardColumn, ...]] = MappingProxyType(
    {"coverage": COVERAGE_DETAILS, "balance": BALANCE}
)
"""What a row has besides in JSON and CSV, by board."""


def json_columns(by: By) -> tuple[BoardColumn, ...]:
    """Return the columns of a row in JSON and CSV; some boards have more than others."""
    return (*JSON_COLUMNS, *FURTHER_COLUMNS.get(by, ()))


def as_json(board: Board) -> dict[str, Any]:
    """Return the board as the document of ``leaderboard --format json``."""
    columns = json_columns(board.by)
    rows = [{column.key: column.value(row) for column in columns} for row in board.rows]
    return board.facts() | {"rows": rows}
