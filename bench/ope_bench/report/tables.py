"""The rows that charts draw, by the names of their columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ope_bench.across import Across
from ope_bench.report.content import Content, Setting
from ope_bench.report.sweeps import Sweep
from ope_bench.statistics.distribution import squared_error_cdf
from ope_bench.tally import Facts, error_of

__all__ = [
    "FIGURES",
    "board_table",
    "cdf_table",
    "error_table",
    "rank_tables",
    "setting_table",
    "sweep_table",
]

Table = list[dict[str, Any]]

FIGURES = (
    "rank",
    "replicates",
    "finite",
    "rmse",
    "rmse_low",
    "rmse_high",
    "heavy_tailed",
    "log10_rmse",
    "relative_rmse",
    "score",
    "imputed",
    "bias",
    "sd",
    "median_absolute_error",
    "worst",
    "cvar",
    "tied",
    "positivity_rate",
    "failure_rate",
    "failure_low",
    "failure_high",
    "warned",
    "warning_precision",
    "warning_recall",
    "coverage",
    "interval_width",
    "unsupported_mass",
    "observed_unsupported_mass",
    "ess_fraction",
    "max_weight_share",
    "fit_seconds",
    "estimate_seconds",
    "seconds",
    "peak_rss_bytes",
    "ratio_error",
)
"""The figures of a row that the page holds, in its order."""


def board_table(content: Content, setting: Setting) -> Table:
    """A line a row of one board."""
    return [
        {
            "method": content.methods[method].label,
            "setting": setting.label,
            "environment": setting.board.environment,
            "device": row.device,
            **{name: getattr(row, name) for name in FIGURES},
        }
        for row, method in zip(setting.board.rows, setting.methods, strict=True)
    ]


def setting_table(content: Content, settings: Sequence[Setting]) -> Table:
    """A line a row of all these boards."""
    return [line for setting in settings for line in board_table(content, setting)]


def sweep_table(content: Content, sweep: Sweep) -> Table:
    """A line a row, with the swept parameter as ``value``."""
    return [
        line | {"value": value}
        for value, index in sweep.at
        for line in board_table(content, content.settings[index])
    ]


def error_table(content: Content, setting: Setting) -> Table:
    """A line a finite error: ``error``, ``replicate``."""
    facts = _facts(setting)
    return [
        {
            "method": content.methods[method].label,
            "replicate": result.record.trial.replicate,
            "error": error,
        }
        for method, group in zip(setting.methods, setting.results, strict=True)
        for result in group
        if (error := error_of(result.record, facts)) is not None
    ]


def cdf_table(content: Content, setting: Setting) -> Table:
    """The distribution function of squared error: ``squared_error``, ``share``.

    Trials that failed are in the denominator, so a curve that ends below 1 tells of them.
    """
    facts = _facts(setting)
    lines: Table = []
    for row, method, group in zip(
        setting.board.rows, setting.methods, setting.results, strict=True
    ):
        errors = [error_of(result.record, facts) for result in group]
        finite = np.array([error for error in errors if error is not None])
        tried = row.replicates - row.status.get("unavailable", 0)
        if not len(finite):
            continue
        squared = np.concatenate([finite**2, np.full(tried - len(finite), np.inf)])
        at = np.unique(finite**2)
        lines += [
            {
                "method": content.methods[method].label,
                "squared_error": float(x),
                "share": float(y),
            }
            for x, y in zip(at, squared_error_cdf(squared, at), strict=True)
        ]
    return lines


def _facts(setting: Setting) -> Facts:
    records = (result.record for group in setting.results for result in group)
    return Facts.of(records, setting.board.truth)


def rank_tables(labels: Sequence[str], summary: Across) -> Mapping[str, Table]:
    """Where a critical-difference diagram puts its parts; empty without mean ranks.

    Methods stand left and right of an axis of mean ranks, the best half on the left; ``bars``
    join those that the critical difference cannot tell apart; ``axis`` are its ticks.

    Parameters
    ----------
    labels : of the summary's rows.
    """
    ranked = sorted(
        (row.mean_rank, label)
        for row, label in zip(summary.rows, labels, strict=True)
        if row.mean_rank is not None
    )
    if not ranked or summary.critical_difference is None:
        return {"methods": [], "elbows": [], "bars": [], "axis": []}
    half = (len(ranked) + 1) // 2
    lowest, highest = ranked[0][0], ranked[-1][0]
    margin = 0.06 * max(highest - lowest, 1.0)
    cliques = _cliques([rank for rank, _ in ranked], summary.critical_difference)
    first = len(cliques) + 1
    methods: Table = []
    elbows: Table = []
    for place, (rank, label) in enumerate(ranked):
        left = place < half
        level = first + (place if left else len(ranked) - 1 - place)
        edge = lowest - margin if left else highest + margin
        methods.append(
            {"method": label, "mean_rank": rank, "x": edge, "level": level, "left": left}
        )
        elbows += [
            {"method": label, "step": step, "x": x, "level": y}
            for step, (x, y) in enumerate([(rank, 0), (rank, level), (edge, level)])
        ]
    bars = [
        {"low": ranked[a][0], "high": ranked[b][0], "level": index + 1}
        for index, (a, b) in enumerate(cliques)
    ]
    start, stop = math.floor(lowest), math.ceil(highest)
    step = 1 + (stop - start) // 12
    ticks = range(start, stop + step, step)
    axis = [{"x": x, "level": 0, "first": x == start} for x in ticks]
    return {"methods": methods, "elbows": elbows, "bars": bars, "axis": axis}


def _cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Largest runs of ranks that lie within the difference."""
    found: list[tuple[int, int]] = []
    for start, low in enumerate(ranks):
        stop = max(i for i, rank in enumerate(ranks) if rank - low <= difference)
        if stop > start and (not found or stop > found[-1][1]):
            found.append((start, stop))
    return found
