"""Boards from their committed JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judging.committed import SUPPORT

from ope_bench.boards import board as parts
from ope_bench.boards.built_in_columns import ESS_PARTS
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.coverage import LEVEL, Coverage, Share
from ope_bench.statistics.error_distribution import ErrorSummary

ERRORS = ("bias", "sd", "median_absolute_error", "worst", "cvar")

STATISTICS = ("mean", "median", "minimum", "maximum")


def board_from_json(told: dict[str, Any]) -> parts.Board:
    """The board that ``leaderboard --format json`` printed."""
    copied = ("by", "environment_origin", "truth", "truth_se", "truth_rms", "label")
    spec = PluginSpec(
        "environment",
        "",
        told["environment"],
        told["environment_params"],
        worlds=told["worlds"],
        version=told["environment_version"],
    )
    facts = {name: told[name] for name in copied}
    return parts.Board(**facts, spec=spec, rows=tuple(map(_row, told["rows"])))


def _row(told: dict[str, Any]) -> parts.Row:
    copied = (
        "rank", "label", "device", "threads", "origin", "replicates",
        "heavy_tailed", "rmse_empirical", "score", "tied", "detectable",
        "imputed", "error_cdf_area", "status",
    )  # fmt: skip
    relative, withheld = told["relative_rmse"], "standard error withheld"
    reasons = (text.partition(": ")[2] for text in told["warnings"] if text.startswith(withheld))
    return parts.Row(
        **{name: told[name] for name in copied},
        spec=PluginSpec("estimator", "", told["estimator"], told["params"]),
        access=tuple(told["access"]),
        rmse=parts.RowInterval(value=told["rmse"], low=told["rmse_low"], high=told["rmse_high"]),
        truth_rms=told["rmse"] / relative if relative else None,
        errors=ErrorSummary(
            told["finite"],
            **{name: told[name] for name in ERRORS},
            quantiles=tuple(told["quantiles"]),
        ),
        positivity=_share(told["positivity_rate"]),
        failure=_share(*(told[f"failure_{part}"] for part in ("rate", "low", "high"))),
        warnings=parts.Warnings(
            warned=told["warned"],
            judged=told["warnings_judged"],
            precision=told["warning_precision"],
            recall=told["warning_recall"],
        ),
        coverage=_coverage(told),
        withheld=parts.Withheld(count=told["withheld"], reasons=tuple(reasons)),
        support=parts.RowSupport(**{name: told[name] for name in SUPPORT}),
        cost=parts.RowCost(**{name: told[name] for name in parts.RowCost.__dataclass_fields__}),
        diagnostics={
            name: parts.DiagnosticSummary(count=1, **dict.fromkeys(STATISTICS, value))
            for name, value in told["diagnostics"].items()
        },
    )


def _coverage(told: dict[str, Any]) -> Coverage:
    total = told["intervals"]
    share = _share(told["coverage"], told["coverage_low"], told["coverage_high"])
    return Coverage(
        share=replace(share, total=total, count=round(total * (told["coverage"] or 0))),
        below=round(total * (told["missed_below"] or 0)),
        above=round(total * (told["missed_above"] or 0)),
        width=told["interval_width"],
        # Boards by other measures do without these.
        median_width=told.get("median_interval_width"),
        score=told.get("interval_score"),
        level=told.get("interval_level") or LEVEL,
        kind=told.get("interval_kind") or told["params"].get("interval") or "",
        by_ess=tuple(_part(told, key) for key, *_ in ESS_PARTS if f"intervals_ess_{key}" in told),
    )


def _part(told: dict[str, Any], key: str) -> Coverage:
    total, value = told[f"intervals_ess_{key}"], told[f"coverage_ess_{key}"]
    share = Share(count=round(total * (value or 0)), total=total, value=value, low=None, high=None)
    return Coverage(share=share, below=0, above=0, width=None)


def _share(value: float | None, low: float | None = None, high: float | None = None) -> Share:
    return Share(count=0, total=0, value=value, low=low, high=high)
