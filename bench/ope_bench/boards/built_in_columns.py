"""The built-in columns of boards, and the columns that each kind of board shows.

Terminal, Markdown, LaTeX, CSV, JSON and the HTML page all use this table.
"""

from __future__ import annotations

import importlib.metadata
import logging
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from ope_bench.base.errors import USER_EXITS, UsageError, did_you_mean
from ope_bench.boards.board import Board, By, Row
from ope_bench.boards.columns import (
    BoardColumn,
    Mark,
    Style,
    count,
    flag,
    json_value,
    number,
    percent,
    seconds,
    text,
)
from ope_bench.plugins.registry import entry_points as installed
from ope_bench.statistics.coverage import Coverage, wilson
from ope_bench.statistics.weight_checks import (
    DOUBTFUL_WEIGHTS,
    LEAST_EFFECTIVE,
    weight_warnings,
)

# Emphasis: ties, failures, and values that need care in reading.

HEAVY = Mark(
    sign="\N{DAGGER}",
    flag="heavy_tailed",
    explanation="heavy-tailed: few data sets determine the RMSE; compare medians",
)
OPEN = "?"
"""The sign on ranks whose comparison with the best row had too little power."""

DOUBTFUL = Mark(
    sign="\N{DOUBLE DAGGER}",
    flag="concentrated",
    explanation=DOUBTFUL_WEIGHTS,
)


def tied_style(row: Row) -> Style:
    """Return the style of scores that do not differ significantly from the best."""
    return "best" if row.tied else ""


def interval_style(row: Row) -> Style:
    """Return the style of an interval."""
    return "caution" if row.heavy_tailed else "good" if row.tied else ""


def failure_style(row: Row) -> Style:
    """Return the style of failures."""
    return "bad" if row.mostly_failed else "caution" if row.failure.value else ""


def weights_in_doubt(row: Row) -> tuple[str, ...]:
    """Return the warnings about a row's weights.

    That is the rule for a single record, of the mean share of the largest weight and the medians
    of the other figures over replicates.
    """
    mean, least = (
        None if (one := row.diagnostics.get(name)) is None else one.median
        for name in ("mean_weight", LEAST_EFFECTIVE)
    )
    kinds = row.coverage.kind.split(", ") if row.coverage.kind else ()
    return weight_warnings(row.support.max_weight_share, mean, least, kinds)


def has_doubtful_weights(row: Row) -> bool:
    """Return whether a row's weights are doubtful."""
    return bool(weights_in_doubt(row))


def row_warnings(row: Row) -> Iterator[str]:
    """Yield what a reader of a row's standard errors must know."""
    yield from weights_in_doubt(row)
    if row.withheld.count:
        share = f"{row.withheld.count} of {row.finite} trials"
        yield f"standard error withheld in {share}: {'; '.join(row.withheld.reasons)}"


def _square(value: float | None) -> float | None:
    """Return the square; None where it overflows."""
    square = math.inf if value is None else value * value
    return square if math.isfinite(square) else None


def _pair(low: float | None, high: float | None) -> tuple[float, float] | None:
    """Return an interval; an upper end that overflows becomes infinite."""
    return None if low is None else (low, math.inf if high is None else high)


# Intervals: how often they hold the truth, on which side they miss it, how wide they are.

ESS_PARTS = (
    ("low", "<.01", "below .01"),
    ("middle", "<.1", "from .01 to below .1"),
    ("high", "≥.1", "at least .1"),
)
"""Keys, headings and words of the parts by effective sample size."""


def _part(row: Any, part: int) -> Coverage:
    parts: tuple[Coverage, ...] = row.coverage.by_ess
    # Boards that were read from JSON have no parts.
    return parts[part] if parts else Coverage(share=wilson(0, 0), below=0, above=0, width=None)


COVERAGE = (
    percent(
        "coverage",
        "cover",
        "share of 95 % intervals that hold the expected truth",
        "coverage.share.value",
        mark=DOUBTFUL,
        hide_empty=True,
        drop=2,
    ),
    percent("coverage_low", "cover low", "lower end of its 95 % interval", "coverage.share.low"),
    percent(
        "coverage_high", "cover high", "upper end of its 95 % interval", "coverage.share.high"
    ),
    percent(
        "missed_below",
        "below",
        "share of 95 % intervals that lie wholly below the expected truth",
        "coverage.missed_below",
    ),
    percent(
        "missed_above",
        "above",
        "share of 95 % intervals that lie wholly above the expected truth",
        "coverage.missed_above",
    ),
    number(
        "interval_width",
        "width",
        "mean width of 95 % intervals",
        "coverage.width",
        mark=DOUBTFUL,
        hide_empty=True,
        drop=1,
    ),
    count("intervals", "", "trials that gave an interval", "coverage.share.total", drop=3),
    count(
        "withheld",
        "",
        "trials in which the estimator withheld its standard error",
        "withheld.count",
        informative=lambda board: any(row.withheld.count for row in board.rows),
    ),
    json_value(
        "warnings",
        "",
        "what a reader of its standard errors must know, in words",
        lambda row: list(row_warnings(row)),
    ),
)


def _columns_of_part(part: int) -> tuple[BoardColumn, BoardColumn]:
    """Make the columns of the trials with one order of ESS/n."""
    key, title, words = ESS_PARTS[part]
    share = percent(
        f"coverage_ess_{key}",
        f"ESS/n {title}",
        f"coverage in trials whose ESS/n is {words}",
        lambda row: _part(row, part).share.value,
        hide_empty=True,
        drop=part,
    )
    total = count(
        f"intervals_ess_{key}",
        f"n {title}",
        f"intervals of trials whose ESS/n is {words}",
        lambda row: _part(row, part).share.total,
    )
    return share, total


COVERAGE_DETAILS = (
    text(
        "interval_kind",
        "kind",
        "how the intervals were made",
        lambda row: row.coverage.kind or None,
        drop=1,
    ),
    number(
        "median_interval_width",
        "median width",
        "median width of the intervals",
        "coverage.median_width",
        mark=DOUBTFUL,
        drop=0,
    ),
    number(
        "interval_score",
        "score",
        "interval score: mean width plus 40 times the distance from the truth of those that miss",
        "coverage.score",
        drop=0,
    ),
    number(
        "interval_level",
        "level",
        "what the intervals claim to cover",
        lambda row: row.coverage.level if row.coverage.share.total else None,
    ),
    *(column for part in range(len(ESS_PARTS)) for column in _columns_of_part(part)),
)
"""Further figures, in JSON and CSV of boards by coverage."""

# The setting: one value for all rows of a board.


_of_board = partial(text, of_board=True)

SETTING_COLUMNS = (
    _of_board("by", "", "measure that orders the rows"),
    _of_board("environment", "", "id of the environment"),
    _of_board(
        "environment_params",
        "",
        "all parameters of the environment",
        lambda board: dict(board.environment_params),
        format="json",
    ),
    _of_board("environment_origin", "", "distribution of the environment, and its data"),
    _of_board("truth", "", "the value against which errors are measured"),
    _of_board("truth_se", "", "standard error of the expected truth", format="number"),
    _of_board("truth_rms", "", "root mean square of the truth", format="number"),
    _of_board("setting", "", "environment with the parameters that distinguish settings", "label"),
)

CSV_KEYS = (
    "by",
    "environment",
    "environment_params",
    "environment_origin",
    "truth",
    "truth_se",
)
"""The columns of a CSV table that repeat the board's facts in each line."""


# Rows.


def _any_warned(board: Board) -> bool:
    return any(row.warnings.warned for row in board.rows)


IDENTITY = (
    count("rank", "#", "place in the order of the board"),
    number(
        "estimator", "", "estimator; in CSV the id alone", style=tied_style, format="estimator"
    ),
    text("label", "", "the id with what tells rows apart"),
    json_value("params", "parameters", "all parameters", lambda row: dict(row.params)),
    number(
        "access",
        "",
        "data that the estimator uses beyond samples",
        lambda row: list(row.access),
        drop=10,
        format="access",
    ),
    text("device", "", "where it ran"),
    count("threads", "", "threads a trial"),
    text("origin", "", "the plugin's distribution or file"),
    count("codes", "", "digests of code and data that the trials have", drop=1),
    count("replicates", "n", "trials"),
    count("finite", "", "trials with a finite estimate"),
)

ERRORS = (
    number(
        "rmse",
        "RMSE",
        "root mean square error over the trials with an estimate",
        "rmse.value",
        style=tied_style,
    ),
    number("rmse_low", "RMSE low", "lower end of its 95 % interval", "rmse.low"),
    number("rmse_high", "RMSE high", "upper end of its 95 % interval", "rmse.high"),
    flag(
        "heavy_tailed",
        "",
        "one replicate has a larger share of the squared error than normal errors would",
    ),
    number(
        "rmse_empirical",
        "RMSE V_s",
        "RMSE against V_s, the mean reward of the target sample: favors estimators that use it",
        informative=lambda board: board.truth == "expected",
        drop=4,
    ),
    number("log10_rmse", "log10", "decimal logarithm of the RMSE"),
    number("relative_rmse", "RMSE/V", "RMSE over the root mean square of the truth", drop=3),
    number(
        "score",
        "score",
        "RMSE in which failures count with the logging average's error; orders the ranks",
        # Without imputed failures scores are RMSEs.
        informative=lambda board: any(row.imputed for row in board.rows),
    ),
    count("imputed", "", "failures that the score imputes"),
    number("bias", "bias", "mean error", lambda row: row.errors.bias, drop=5),
    number("sd", "sd", "standard deviation of the errors", "errors.sd"),
    number(
        "median_absolute_error",
        "median",
        "median absolute error",
        "errors.median_absolute_error",
        drop=11,
    ),
    json_value(
        "quantiles",
        "",
        "quantiles of the absolute error, at .05, .25, .5, .75, .95",
        lambda row: list(row.errors.quantiles),
    ),
    number("worst", "worst", "largest absolute error", "errors.worst"),
    number("cvar", "CVaR", "mean of the worst tenth of squared errors", "errors.cvar"),
    number(
        "error_cdf_area",
        "CDF area",
        "area under the distribution of squared error up to the logging average's; 1 is perfect",
    ),
    flag("tied", "", "cannot be told from the best score"),
    percent(
        "detectable", "unseen", "largest growth over the best score that could have been missed"
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
        "positivity.value",
    ),
    percent(
        "failure_rate",
        "fail",
        "share of trials that neither gave an estimate nor were unavailable",
        "failure.value",
        style=failure_style,
    ),
    percent("failure_low", "fail low", "lower end of its 95 % interval", "failure.low"),
    percent("failure_high", "fail high", "upper end of its 95 % interval", "failure.high"),
    count("warned", "", "PositivityViolations raised", "warnings.warned"),
    count(
        "warnings_judged",
        "judged",
        "PositivityViolations with a fallback, which shows whether they were right",
        "warnings.judged",
    ),
    percent(
        "warning_precision",
        "prec",
        "share of its PositivityViolations that were right",
        "warnings.precision",
        informative=_any_warned,
        drop=7,
    ),
    percent(
        "warning_recall",
        "rec",
        "share of its large errors with a warning",
        "warnings.recall",
        informative=_any_warned,
        drop=6,
    ),
)

SUPPORT = (
    percent(
        "unsupported_mass",
        "unsupported",
        "target mass without support under the true logging policy",
        "support.unsupported_mass",
    ),
    percent(
        "observed_unsupported_mass",
        "never logged",
        "share of target actions that were never logged",
        "support.observed_unsupported_mass",
    ),
    number(
        "n_logged_actions", "d0", "number of distinct logged actions", "support.n_logged_actions"
    ),
    number(
        "n_target_actions",
        "d1",
        "number of distinct actions in the target sample",
        "support.n_target_actions",
    ),
    number(
        "ess_fraction",
        "ESS/n",
        "effective sample size of the weights, divided by the number of rows",
        "support.ess_fraction",
    ),
    number(
        "max_weight_share",
        "max w",
        "largest weight over the sum of weights",
        "support.max_weight_share",
        mark=DOUBTFUL,
        drop=8,
    ),
)

COST = (
    seconds(
        "fit_seconds", "fit", "median seconds of fit in trials that ran alone", "cost.fit_seconds"
    ),
    seconds(
        "estimate_seconds",
        "estimate",
        "median seconds of estimate in trials that ran alone",
        "cost.estimate_seconds",
    ),
    seconds(
        "seconds",
        "both",
        "median seconds of fit and estimate in trials that ran alone",
        "cost.seconds",
    ),
    number(
        "peak_rss_bytes",
        "memory",
        "median of the peak memory during a trial",
        "cost.peak_rss_bytes",
        drop=9,
        format="bytes",
    ),
)

TIME = (
    text(
        "machine",
        "",
        "processors that ran the timed trials; ranks are among the rows of one",
        lambda row: row.machine or None,
    ),
)
"""Further figures, in JSON and CSV of boards by time."""

RATIO = (
    number("ratio_error", "ratio error", "median error of the estimated density ratio"),
    text("ratio_measure", "measure", "diagnostic that is shown as the ratio error"),
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
    percent(
        "coverage_interval",
        "95 % interval",
        "95 % interval (Wilson) of the share of intervals that hold the expected truth",
        lambda row: _pair(row.coverage.share.low, row.coverage.share.high),
    ),
    percent(
        "coverage_gap",
        "gap",
        "distance of the coverage from what the intervals claim",
        "coverage.gap",
    ),
    number(
        "mse",
        "MSE",
        "mean square error over the trials with an estimate",
        lambda row: _square(row.rmse.value),
    ),
    number(
        "relative_ee",
        "|error|/|V|",
        "mean of the absolute error over the absolute truth, the relative estimation error",
        "relative_error",
    ),
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
        for column in (
            *(*JSON_COLUMNS, *COVERAGE_DETAILS, *TIME, *BALANCE),
            *(*DERIVED, *SETTING_COLUMNS),
        )
    }
)
"""The built-in columns by key."""


def json_columns(by: By) -> tuple[BoardColumn, ...]:
    """Return the columns of a row in JSON and CSV; some boards have more than others."""
    further = {"coverage": COVERAGE_DETAILS, "time": TIME, "balance": BALANCE}
    return (*JSON_COLUMNS, *further.get(by, ()))


def as_json(board: Board) -> dict[str, Any]:
    """Return the board as the document of ``leaderboard --format json``."""
    columns = json_columns(board.by)
    rows = [{column.key: column.value(row) for column in columns} for row in board.rows]
    return board.facts() | {"rows": rows}


# Layouts of boards.


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of one kind of board.

    Parameters
    ----------
    title : heading of such boards.
    measure : key of the column that orders the rows, small values first.
    headline : key of the column that represents the row where only one fits.
    shown : keys of the shown columns, in their order.
    further : keys of columns that the page shows on request.
    """

    title: str
    measure: str
    headline: str
    shown: tuple[str, ...]
    further: tuple[str, ...]


_TEXTS = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text(encoding="utf-8"))

LAYOUTS: Mapping[By, Layout] = MappingProxyType(
    {
        by: Layout(**facts | {name: tuple(facts[name].split()) for name in ("shown", "further")})
        for by, facts in ((by, _TEXTS[by]) for by in get_args(By))
    }
)
"""The layouts of boards, which layouts.toml lists."""


# The registry of columns: built-in ones and those of plugins.

GROUP = "ope_bench.columns"

_log = logging.getLogger(__name__)


class ColumnRegistry:
    """The known columns of boards.

    Parameters
    ----------
    entry_points : for tests; the installed ones by default.
    """

    def __init__(
        self, entry_points: Iterable[importlib.metadata.EntryPoint] | None = None
    ) -> None:
        if entry_points is None:
            entry_points = installed(GROUP)
        self._points = [point for point in entry_points if point.group == GROUP]

    @cached_property
    def columns(self) -> Mapping[str, BoardColumn]:
        """Return all columns by key."""
        return {**COLUMNS, **{column.key: column for column in self.plugins}}

    @cached_property
    def plugins(self) -> tuple[BoardColumn, ...]:
        """Return the columns of plugins, ordered by key; their functions never raise."""
        columns: dict[str, BoardColumn] = {}
        owners: dict[str, str] = {}
        # A distribution may be on the path twice; its entry points count once.
        for point in {(_origin(one), one.name, one.value): one for one in self._points}.values():
            where = f"column '{point.name}' ({_origin(point)}, {point.value})"
            try:
                column = point.load()
            # A broken plugin may raise any exception at import, SystemExit included.
            except BaseException as exc:
                if isinstance(exc, USER_EXITS):
                    raise
                _log.warning("%s left out: %s", where, _reason(exc))
                continue
            if not isinstance(column, BoardColumn):
                _log.warning("%s left out: it is not an ope_bench.BoardColumn", where)
                continue
            owner = "ope-bench" if column.key in COLUMNS else owners.get(column.key)
            if owner:
                _log.warning("%s left out: key '%s' is taken by %s", where, column.key, owner)
                continue
            owners[column.key] = _origin(point)
            columns[column.key] = replace(column, value=_guard(column, where))
        return tuple(columns[key] for key in sorted(columns))

    def layout(self, by: By) -> list[BoardColumn]:
        """Return the columns of one kind of board, plugins' columns last."""
        own = [COLUMNS[key] for key in LAYOUTS[by].shown]
        return own + [column for column in self.plugins if by in column.boards]

    def shown(self, board: Board) -> list[BoardColumn]:
        """Return the columns of a board, without empty ones that hide."""
        return without_empty(self.layout(board.by), board.rows)


def without_empty(columns: Iterable[BoardColumn], rows: Sequence[Any]) -> list[BoardColumn]:
    """Return the columns without those that hide where no row has a value."""
    return [
        column
        for column in columns
        if not column.hide_empty or any(column.value(row) is not None for row in rows)
    ]


@cache
def column_registry() -> ColumnRegistry:
    """Return the registry of installed columns, read once per process."""
    return ColumnRegistry()


def select_columns(
    keys: Sequence[str], known: Iterable[BoardColumn] | None = None
) -> list[BoardColumn]:
    """Return the columns with the given keys, in their order.

    Parameters
    ----------
    keys : keys from the user.
    known : available columns; those of boards by default.

    Raises
    ------
    UsageError : no column has one of the keys, or a key is repeated.
    """
    columns = column_registry().columns.values() if known is None else known
    by_key = {column.key: column for column in columns}
    for index, key in enumerate(keys):
        if key in keys[:index]:
            msg = f"column '{key}' is named twice"
            raise UsageError(msg)
        if key not in by_key:
            hint = did_you_mean(key, by_key) or "."
            msg = f"unknown column '{key}'{hint} Columns: {', '.join(by_key)}"
            raise UsageError(msg)
    return [by_key[key] for key in keys]


def _origin(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown 0"


def _reason(exc: BaseException) -> str:
    return " ".join(f"{type(exc).__name__}: {exc}".split())


def _guard(column: BoardColumn, where: str) -> Callable[[Any], Any]:
    """Wrap the column's function: on an error it returns None and logs one line."""
    failed: list[str] = []

    def value(row: Any) -> Any:
        try:
            return _plain(column.value(row), column)
        except Exception as exc:
            if not failed:
                failed.append(where)
                _log.warning("%s has no value for some rows: %s", where, _reason(exc))
            return None

    return value


def _plain(value: Any, column: BoardColumn) -> Any:
    """Convert a value for its format; None for a number that is not finite."""
    if isinstance(value, tuple | list) and len(value) == 2:
        low, high = (_plain(part, column) for part in value)
        return None if low is None or high is None else (low, high)
    # NumPy scalars.
    number = value.item() if hasattr(value, "item") else value
    if number is None or (isinstance(number, str | bool) and not column.numeric):
        return number
    if isinstance(number, int | float) and column.numeric:
        return number if math.isfinite(number) else None
    msg = f"its value is {type(value).__name__}, which its format '{column.format}' cannot show"
    raise TypeError(msg)
