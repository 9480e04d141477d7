"""The columns of each kind of board, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ope_bench.boards.board import By

__all__ = ["LAYOUTS", "Layout"]


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


LAYOUTS: Mapping[By, Layout] = MappingProxyType(
    {
        "rmse": Layout(
            title="RMSE",
            measure="score",
            headline="score",
            shown=(
                "rank",
                "estimator",
                "rmse",
                "rmse_interval",
                "score",
                "rmse_empirical",
                "bias",
                "median_absolute_error",
                "failure_rate",
                "relative_rmse",
                "coverage",
                "interval_width",
                "access",
            ),
            further=(
                "detectable",
                "log10_rmse",
                "sd",
                "worst",
                "cvar",
                "error_cdf_area",
                "replicates",
            ),
        ),
        "positivity": Layout(
            title="Positivity",
            measure="failure_rate",
            headline="failure_rate",
            shown=(
                "rank",
                "estimator",
                "failure_rate",
                "failure_interval",
                "status",
                "ess_fraction",
                "max_weight_share",
                "warning_precision",
                "warning_recall",
                "access",
            ),
            further=(
                "positivity_rate",
                "unsupported_mass",
                "observed_unsupported_mass",
                "n_logged_actions",
                "n_target_actions",
                "replicates",
            ),
        ),
        "coverage": Layout(
            title="Coverage",
            measure="coverage_gap",
            headline="coverage",
            shown=(
                "rank",
                "estimator",
                "interval_kind",
                "coverage",
                "coverage_interval",
                "missed_below",
                "missed_above",
                "interval_width",
                "median_interval_width",
                "interval_score",
                "coverage_ess_low",
                "coverage_ess_middle",
                "coverage_ess_high",
                "intervals",
                "withheld",
                "access",
            ),
            further=(
                "coverage_gap",
                "interval_level",
                "intervals_ess_low",
                "intervals_ess_middle",
                "intervals_ess_high",
                "rmse",
                "bias",
                "ess_fraction",
                "max_weight_share",
                "replicates",
            ),
        ),
        "time": Layout(
            title="Time",
            measure="seconds",
            headline="seconds",
            shown=(
                "rank",
                "estimator",
                "fit_seconds",
                "estimate_seconds",
                "seconds",
                "peak_rss_bytes",
                "rmse",
            ),
            further=("device", "threads", "replicates"),
        ),
        "ratio": Layout(
            title="Density ratio",
            measure="ratio_error",
            headline="ratio_error",
            shown=(
                "rank",
                "estimator",
                "ratio_error",
                "log_ratio_rmse",
                "kl_estimate",
                "kl_true",
                "mean_weight",
                "ess_fraction",
                "rmse",
            ),
            further=("auc", "log_loss", "ratio_measure", "replicates"),
        ),
        "balance": Layout(
            title="Balance",
            measure="smd_after",
            headline="smd_after",
            shown=(
                "rank",
                "estimator",
                "smd_after",
                "smd_before",
                "mmd_after",
                "mmd_before",
                "mean_weight",
                "ess_fraction",
                "rmse",
            ),
            further=("max_weight_share", "ratio_error", "replicates"),
        ),
    }
)
