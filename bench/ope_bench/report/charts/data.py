"""The data of charts, as rows by column name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ope_bench.boards.aggregation import ReplicateFacts, errors_of
from ope_bench.boards.summary import Summary
from ope_bench.report.columns import figure_columns
from ope_bench.report.content import ReportData, Setting
from ope_bench.report.sweeps import Sweep
from ope_bench.statistics.distribution import squared_error_cdf
from ope_bench.trials.status import Status

__all__ = [
    "board_table",
    "cdf_table",
    "error_table",
    "rank_tables",
    "setting_table",
    "sweep_table",
]

Table = list[dict[str, Any]]

MOST_RANKED = 25
"""Most estimators in a critical-difference diagram."""


def board_table(content: ReportData, setting: Setting) -> Table:
    """Return a line for each row of one board."""
    figures = figure_columns()
    return [
        {
            "method": content.methods[method].label,
            "setting": setting.label,
            "environment": setting.board.environment,
            "device": row.device,
            **{column.key: column.value(row) for column in figures},
        }
        for row, method in zip(setting.board.rows, setting.methods, strict=True)
    ]


def setting_table(content: ReportData, settings: Sequence[Setting]) -> Table:
    """Return a line for each row of several boards."""
    return [line for setting in settings for line in board_table(content, setting)]


def sweep_table(content: ReportData, sweep: Sweep) -> Table:
    """Return a line for each row, with the swept parameter as ``value``."""
    return [
        line | {"value": value}
        for value, index in sweep.at
        for line in board_table(content, content.settings[index])
    ]


def error_table(content: ReportData, setting: Setting) -> Table:
    """Return a line for each finite error: ``error``, ``replicate``."""
    facts = _facts(setting)
    return [
        {"method": content.methods[method].label, "replicate": replicate, "error": error}
        for method, group in zip(setting.methods, setting.trials, strict=True)
        for replicate, error in zip(
            group.replicate.tolist(), errors_of(group, facts).tolist(), strict=True
        )
        if not math.isnan(error)
    ]


def cdf_table(content: ReportData, setting: Setting) -> Table:
    """Return the distribution function of squared error: ``squared_error``, ``share``.

    Failed trials are in the denominator, so a curve with failures ends below 1.
    """
    facts = _facts(setting)
    lines: Table = []
    for row, method, group in zip(
        setting.board.rows, setting.methods, setting.trials, strict=True
    ):
        errors = errors_of(group, facts)
        finite = errors[~np.isnan(errors)]
        tried = row.replicates - sum(n for word, n in row.status.items() if not Status(word).tried)
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


def _facts(setting: Setting) -> ReplicateFacts:
    return ReplicateFacts.of(setting.outcomes(), setting.board.truth)


def rank_tables(labels: Sequence[str], summary: Summary) -> Mapping[str, Table]:
    """Lay out a critical-difference diagram; empty where it could not be read.

    That is without mean ranks, with too many of them, and where none differ significantly.

    Estimators are left and right of an axis of mean ranks, the best half on the left; ``bars``
    join those whose ranks differ by less than the critical difference; ``axis`` has the ticks.

    Parameters
    ----------
    labels : labels of the summary's rows.
    """
    ranked = sorted(
        (row.mean_rank, label)
        for row, label in zip(summary.rows, labels, strict=True)
        if row.mean_rank is not None
    )
    nothing: Mapping[str, Table] = {"methods": [], "elbows": [], "bars": [], "axis": []}
    if summary.critical_difference is None or not 1 < len(ranked) <= MOST_RANKED:
        return nothing
    if ranked[-1][0] - ranked[0][0] <= summary.critical_difference:
        return nothing
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
    """Return the maximal runs of ranks within the critical difference."""
    found: list[tuple[int, int]] = []
    for start, low in enumerate(ranks):
        stop = max(i for i, rank in enumerate(ranks) if rank - low <= difference)
        if stop > start and (not found or stop > found[-1][1]):
            found.append((start, stop))
    return found
