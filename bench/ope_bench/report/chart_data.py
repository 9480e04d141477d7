"""The data of charts, as lines by column name.

Without Altair, which takes a quarter of a second to import: pages hold data and finished charts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ope_bench.boards.aggregation import ReplicateFacts, errors_of
from ope_bench.boards.over_settings import Summary
from ope_bench.report.content import ReportData, Setting, Sweep, figure_columns
from ope_bench.statistics.error_distribution import squared_error_cdf
from ope_bench.trials.status import Status

Lines = list[dict[str, Any]]

MOST_RANKED = 25
"""Most estimators in a critical-difference diagram."""


def board_lines(content: ReportData, setting: Setting) -> Lines:
    """Return a line for each row of one board."""
    figures = figure_columns()
    return [
        {
            "method": label,
            "setting": setting.label,
            "environment": setting.board.environment,
            "device": row.device,
            **{column.key: column.value(row) for column in figures},
        }
        for label, row, _ in content.rows_of(setting)
    ]


def sweep_lines(content: ReportData, sweep: Sweep) -> Lines:
    """Return a line for each row, with the swept parameter as ``value``.

    A row with failures stands at its score: the RMSE of the trials that are left looks better.
    """
    lines: Lines = []
    for value, index in sweep.at:
        for line in board_lines(content, content.settings[index]):
            line["value"] = value
            if line["imputed"] and line["rmse"] and line["score"]:
                line["rmse"] = line["score"]
                line["log10_rmse"] = math.log10(line["score"])
                line["rmse_low"] = line["rmse_high"] = None
            lines.append(line)
    return lines


def error_lines(content: ReportData, setting: Setting) -> Lines:
    """Return a line for each finite error: ``error``, ``replicate``."""
    facts = ReplicateFacts.of(setting.outcomes(), setting.board.truth)
    return [
        {"method": label, "replicate": replicate, "error": error}
        for label, _, group in content.rows_of(setting)
        for replicate, error in zip(
            group.replicate.tolist(), errors_of(group, facts).tolist(), strict=True
        )
        if not math.isnan(error)
    ]


def cdf_lines(content: ReportData, setting: Setting) -> Lines:
    """Return the distribution function of squared error: ``squared_error``, ``share``.

    Failed trials are in the denominator, so a curve with failures ends below 1.
    """
    facts = ReplicateFacts.of(setting.outcomes(), setting.board.truth)
    lines: Lines = []
    for label, row, group in content.rows_of(setting):
        errors = errors_of(group, facts)
        finite = errors[~np.isnan(errors)]
        tried = row.replicates - sum(n for word, n in row.status.items() if not Status(word).tried)
        if not len(finite):
            continue
        squared = np.concatenate([finite**2, np.full(tried - len(finite), np.inf)])
        at = np.unique(finite**2)
        lines += [
            {"method": label, "squared_error": float(x), "share": float(y)}
            for x, y in zip(at, squared_error_cdf(squared, at), strict=True)
        ]
    return lines


def rank_lines(labels: Sequence[str], summary: Summary) -> Mapping[str, Lines]:
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
    critical = summary.critical_difference
    few = 1 < len(ranked) <= MOST_RANKED
    if critical is None or not few or ranked[-1][0] - ranked[0][0] <= critical:
        return {"methods": [], "elbows": [], "bars": [], "axis": []}
    half = (len(ranked) + 1) // 2
    lowest, highest = ranked[0][0], ranked[-1][0]
    margin = 0.06 * max(highest - lowest, 1.0)
    # The maximal runs of ranks within the critical difference.
    cliques: list[tuple[int, int]] = []
    for start, (low, _) in enumerate(ranked):
        stop = max(k for k, (rank, _) in enumerate(ranked) if rank - low <= critical)
        if stop > start and (not cliques or stop > cliques[-1][1]):
            cliques.append((start, stop))
    first = len(cliques) + 1
    methods: Lines = []
    elbows: Lines = []
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
    least, most = math.floor(lowest), math.ceil(highest)
    apart = 1 + (most - least) // 12
    ticks = range(least, most + apart, apart)
    axis = [{"x": x, "level": 0, "first": x == least} for x in ticks]
    return {"methods": methods, "elbows": elbows, "bars": bars, "axis": axis}
