"""A report's data for the page: compact JSON, with trials compressed by setting.

The page has all statistics of all rows, and each setting's trials as one compressed text that is
unpacked when a reader opens it, about thirty bytes per trial; see `ope_bench.report.page.embedded`
for how many.
"""

from __future__ import annotations

import base64
import json
import math
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ope_bench import __version__
from ope_bench.boards.aggregation import ReplicateFacts
from ope_bench.boards.board import Board
from ope_bench.boards.columns.layouts import LAYOUTS
from ope_bench.boards.ranking import reordered
from ope_bench.boards.summary import Summary, summary_columns
from ope_bench.canonical import plain
from ope_bench.contracts.arrays import FloatArray
from ope_bench.report.charts.data import rank_tables
from ope_bench.report.charts.estimator_styles import styles_of
from ope_bench.report.charts.short_labels import short_labels
from ope_bench.report.columns import (
    describe_columns,
    describe_layouts,
    figure_columns,
    page_columns,
)
from ope_bench.report.content import EstimatorInfo, ReportData, Setting
from ope_bench.report.page.chart_specs import chart_specs
from ope_bench.report.page.embedded import embedded_settings, left_out
from ope_bench.report.page.groups import Group, docstrings_of, groups_of, outcomes_of_runs
from ope_bench.report.sweeps import Sweep, sweeps
from ope_bench.report.text.board_notes import board_notes
from ope_bench.store import Run
from ope_bench.store.results import RUN_COLUMNS
from ope_bench.trials.outcomes import Outcomes
from ope_bench.trials.status import Severity, Status

__all__ = ["escaped_json", "payload"]

NOTED = {by: [key for key in layout.shown if key != "access"] for by, layout in LAYOUTS.items()}
"""The columns whose notes the page shows; it shows access in words instead of letters."""

SHORTEST_KEY = 10
SEVERITY = {one: one.name.lower().replace("_", "-") for one in Severity}
"""The page's style classes for statuses."""


def payload(content: ReportData, *, live: bool = False) -> dict[str, Any]:
    """Return the data of the page, as plain JSON.

    Parameters
    ----------
    content : the data of the report.
    live : the page polls its server for changes.
    """
    keys = _shortest_keys(content)
    short = short_labels([method.label for method in content.methods])
    machines = _unique(run.machine for run in content.runs)
    done = outcomes_of_runs(content)
    embedded = embedded_settings(content)
    return {
        "schema": 1,
        "version": __version__,
        "made": time.time(),
        "live": live,
        "store": str(content.store),
        "suite": content.suite,
        "run": content.run,
        "runs": [_run(run, machines) | {"done": done[run.id]} for run in content.runs],
        "machines": machines,
        "status": _statuses(content),
        "statuses": [status.value for status in Status],
        "severity": {status.value: SEVERITY[status.severity] for status in Status},
        "columns": page_columns(),
        "layouts": describe_layouts(),
        "methods": [_method(method, short[method.label]) for method in content.methods],
        "settings": [_setting(setting) for setting in content.settings],
        "figures": [column.key for column in figure_columns()],
        "rows": [line for setting in content.settings for line in _rows(setting)],
        "sweeps": [_sweep(sweep) for sweep in sweeps(content.settings)],
        "groups": [_suite_group(content, group) for group in groups_of(content)],
        "docstrings": docstrings_of(content),
        "charts": chart_specs(),
        "styles": [
            [one.color, list(one.dash), one.shape]
            for one in styles_of(
                {short[one.label]: one.estimator for one in content.methods}
            ).values()
        ],
        "left_out": left_out(content),
        "trials": [
            _packed(_trials(setting, keys)) if place < embedded else None
            for place, setting in enumerate(content.settings)
        ],
    }


def _method(method: EstimatorInfo, short: str) -> dict[str, Any]:
    return {
        "label": method.label,
        "short": short,
        "estimator": method.estimator,
        "params": _rounded(dict(method.params), 17),
        "device": method.device,
        "access": list(method.access),
        "origin": method.origin,
        "third_party": method.third_party,
    }


def _sweep(sweep: Sweep) -> dict[str, Any]:
    return {
        "title": sweep.title,
        "parameter": sweep.parameter,
        "at": [[value, index] for value, index in sweep.at],
        "logarithmic": sweep.at[0][0] > 0,
    }


def _suite_group(content: ReportData, group: Group) -> dict[str, Any]:
    return {
        "suite": group.suite,
        "title": group.title,
        "settings": list(group.settings),
        "sentences": list(group.sentences),
        "ranks": [
            _ranks(name, summary, content.labels_of(summary)) for name, summary in group.across
        ],
    }


def _ranks(name: str, summary: Summary, labels: Sequence[str]) -> dict[str, Any]:
    estimator, *figures = summary_columns(summary, further=True)
    return {
        "title": name,
        "settings": summary.settings,
        "complete": summary.complete,
        "critical_difference": _round(summary.critical_difference, 6),
        "columns": describe_columns([estimator, *figures]),
        "rows": [
            [label, *(_round(column.value(row), 6) for column in figures)]
            for label, row in zip(labels, summary.rows, strict=True)
        ],
        **_rounded(rank_tables(labels, summary), 6),
    }


def escaped_json(value: Any) -> str:
    """Serialize JSON that is safe inside a script element, for any texts.

    >>> escaped_json("</script>&")
    '"\\\\u003c/script\\\\u003e\\\\u0026"'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _run(run: Run, machines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    facts = {name: getattr(run, name) for name in RUN_COLUMNS}
    return facts | {"machine": machines.index(_rounded(run.machine, 17))}


def _unique(facts: Iterable[Mapping[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for one in facts:
        rounded = _rounded(one, 17)
        if rounded not in found:
            found.append(rounded)
    return found


def _statuses(content: ReportData) -> dict[str, int]:
    """Count trials by status."""
    counts = Counter(content.ends.values())
    return {status.value: counts[status] for status in Status}


def _shortest_keys(content: ReportData) -> int:
    """Return the number of digits that makes all keys distinct."""
    length = SHORTEST_KEY
    for one, other in pairwise(sorted(content.ends)):
        while one[:length] == other[:length]:
            length += 1
    return length


def _setting(setting: Setting) -> dict[str, Any]:
    board = setting.board
    sizes = (row.errors.median_absolute_error for row in board.rows)
    medians = [size for size in sizes if size]
    orders: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    place = {id(row): index for index, row in enumerate(board.rows)}
    for by in LAYOUTS:
        other = board if by == "rmse" else reordered(board, by)
        texts[by] = board_notes(other, NOTED[by])
        orders[by] = _order(board, other, place)
    return {
        "label": setting.label,
        "environment": board.environment,
        "params": _rounded(dict(board.environment_params), 17),
        "worlds": board.worlds,
        "version": board.environment_version,
        "origin": board.environment_origin,
        "third_party": setting.third_party,
        "dirty": all(setting.dirty),
        "surrogate": setting.surrogate,
        "truth": board.truth,
        "truth_se": _round(board.truth_se, 6),
        "truth_rms": _round(board.truth_rms, 6),
        "unit": _round(sorted(medians)[len(medians) // 2], 3) if medians else 1.0,
        "rows": len(board.rows),
        "ranks": orders,
        "notes": texts,
    }


def _order(board: Board, other: Board, place: Mapping[int, int]) -> list[list[int | None]]:
    """Return [row, rank] in the order of another measure."""
    # Rows of the other board are copies; estimator, device and threads identify them.
    known = {_name(row): place[id(row)] for row in board.rows}
    return [[known[_name(row)], row.rank] for row in other.rows]


def _name(row: Any) -> tuple[str, str, str, int]:
    return row.estimator, json.dumps(_rounded(row.params, 17)), row.device, row.threads


def _rows(setting: Setting) -> list[list[Any]]:
    """Return [method, dirty, statuses, diagnostics, figures...] of each row."""
    figures = figure_columns()
    return [
        [
            method,
            int(dirty),
            dict(row.status),
            {name: _round(one.median, 4) for name, one in row.diagnostics.items()},
            *(_rounded(column.value(row), 6) for column in figures),
        ]
        for row, method, dirty in zip(
            setting.board.rows, setting.methods, setting.dirty, strict=True
        )
    ]


def _trials(setting: Setting, key_length: int) -> dict[str, Any]:
    """Return the trials of a setting by column; data shared by rows appear once."""
    outcomes = setting.outcomes()
    facts = ReplicateFacts.of(outcomes, setting.board.truth)
    # The last entry of the facts is that of no replicate.
    first = np.unique(facts.at(outcomes), return_index=True)[1]
    texts: dict[str, int] = {}
    return {
        "seed": outcomes.seed[first].tolist(),
        "replicate": outcomes.replicate[first].tolist(),
        "truth": _round_column(facts.truth[:-1], 8),
        "expected": _round_column(facts.expected[:-1], 8),
        "naive": _round_column(facts.logging_average[:-1], 6),
        "cells": [_cell(group, facts, texts, key_length) for group in setting.trials],
        "texts": list(texts),
    }


FAULTS = ("error_type", "error_message", "traceback", "output_tail")
DIGITS = {
    "estimate": 8,
    "fallback": 6,
    "standard_error": 4,
    "interval_low": 6,
    "interval_high": 6,
    "fit_seconds": 3,
    "estimate_seconds": 3,
}
"""Significant digits of the columns of trials."""


def _cell(
    group: Outcomes, facts: ReplicateFacts, texts: dict[str, int], key_length: int
) -> dict[str, Any]:
    told = zip(*(getattr(group, name).tolist() for name in FAULTS), strict=True)
    faults = {
        index: [None if text is None else texts.setdefault(text, len(texts)) for text in one]
        for index, one in enumerate(told)
        if any(one)
    }
    columns = {name: getattr(group, name) for name in DIGITS}
    return {
        "data": facts.at(group).tolist(),
        "key": "".join(key[:key_length] for key in group.key.tolist()),
        "digits": key_length,
        "status": "".join(map(str, group.status.tolist())),
        # Columns without values are omitted.
        **{
            name: _round_column(values, DIGITS[name])
            for name, values in columns.items()
            if np.isfinite(values).any()
        },
        **({"faults": faults} if faults else {}),
    }


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def _round(value: Any, digits: int) -> Any:
    """Round to significant digits; null for numbers that are not finite."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return _shortest(float(f"{value:.{digits}g}"))


def _round_column(values: FloatArray, digits: int) -> list[Any]:
    """Round as `_round` does, all numbers of a column at once."""
    finite = np.isfinite(values)
    texts = map(f"%.{digits}g".__mod__, values[finite].tolist())
    short = [_shortest(number) for number in map(float, texts)]
    if len(short) == len(values):
        return short
    rounded = np.full(len(values), None, np.object_)
    rounded[finite] = np.array(short, np.object_)
    return list(rounded.tolist())


def _shortest(number: float) -> float | int:
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def _rounded(value: Any, digits: int) -> Any:
    # Of nearly all figures a number; there are dozens of them in each row.
    if value is None or isinstance(value, float | int | str):
        return _round(value, digits)
    return plain(value, lambda number: _round(number, digits))
