"""A report's content as the page reads it: compact JSON, trials packed a setting at a time.

The page holds every figure of every row at once, and each setting's trials as one compressed
text, unpacked when a reader asks for them: a trial takes some thirty bytes.
"""

from __future__ import annotations

import base64
import json
import math
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from ope_bench import __version__
from ope_bench.leaderboard import Board, By, reordered
from ope_bench.records import Status
from ope_bench.report import charts
from ope_bench.report.columns import notes
from ope_bench.report.content import Content, Setting
from ope_bench.report.labels import short_labels
from ope_bench.report.styles import PAGE, styles_of
from ope_bench.report.sweeps import sweeps
from ope_bench.report.tables import FIGURES, rank_tables
from ope_bench.store import Result, Run
from ope_bench.tally import Facts

__all__ = ["escaped_json", "payload"]

QUESTIONS: tuple[By, ...] = ("rmse", "positivity", "time", "ratio")
SHORTEST_KEY = 10
DIGIT = {status: str(index) for index, status in enumerate(Status)}
"""What stands for a status in a cell's text of statuses."""


def payload(content: Content, *, live: bool = False) -> dict[str, Any]:
    """What the page shows, as plain JSON.

    Parameters
    ----------
    content : what to show.
    live : the page asks its server for news.
    """
    keys = _shortest_keys(content)
    short = short_labels([method.label for method in content.methods])
    machines = _unique(run.machine for run in content.runs)
    return {
        "schema": 1,
        "version": __version__,
        "made": time.time(),
        "live": live,
        "store": str(content.store),
        "suite": content.suite,
        "run": content.run,
        "runs": [_run(run, machines) for run in content.runs],
        "machines": machines,
        "status": _statuses(content),
        "statuses": [status.value for status in Status],
        "methods": [
            {
                "label": method.label,
                "short": short[method.label],
                "estimator": method.estimator,
                "params": _rounded(dict(method.params), 17),
                "device": method.device,
                "access": list(method.access),
                "origin": method.origin,
                "third_party": method.third_party,
            }
            for method in content.methods
        ],
        "settings": [_setting(setting) for setting in content.settings],
        "figures": list(FIGURES),
        "rows": [line for setting in content.settings for line in _rows(setting)],
        "sweeps": [
            {
                "title": sweep.title,
                "parameter": sweep.parameter,
                "at": [[value, index] for value, index in sweep.at],
                "logarithmic": sweep.at[0][0] > 0,
            }
            for sweep in sweeps(content.settings)
        ],
        "ranks": [
            {
                "title": name,
                "settings": summary.settings,
                "complete": summary.complete,
                "critical_difference": _round(summary.critical_difference, 6),
                "factors": list(summary.factors),
                "rows": [
                    [label, _round(row.mean_rank, 6), _round(row.factor_iqm, 6), row.settings]
                    + [_round(share, 6) for share in row.within]
                    for label, row in zip(labels, summary.rows, strict=True)
                ],
                **_rounded(rank_tables(labels, summary), 6),
            }
            for name, summary in content.across
            for labels in [content.labels_of(summary)]
        ],
        "charts": _specs(),
        "styles": [
            [one.colour, list(one.dash), one.shape]
            for one in styles_of(list(short.values()), PAGE).values()
        ],
        "trials": [_packed(_trials(setting, keys)) for setting in content.settings],
    }


def escaped_json(value: Any) -> str:
    """JSON that can stand inside a script element, whatever texts it holds.

    >>> escaped_json("</script>&")
    '"\\\\u003c/script\\\\u003e\\\\u0026"'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


@cache
def _specs() -> dict[str, Any]:
    specs = {name: chart().to_dict(validate=False) for name, chart in charts.CHARTS.items()}
    for spec in specs.values():
        # Colours and sizes are the page's, in light and in dark.
        spec.pop("config", None)
    return specs


def _run(run: Run, machines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = ("id", "suite", "truth", "command", "started", "finished", "planned", "exit_code")
    facts = {name: getattr(run, name) for name in names}
    return facts | {"machine": machines.index(_rounded(run.machine, 17))}


def _unique(facts: Iterable[Mapping[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for one in facts:
        plain = _rounded(one, 17)
        if plain not in found:
            found.append(plain)
    return found


def _statuses(content: Content) -> dict[str, int]:
    """How many trials ended how."""
    counts = Counter(content.ends.values())
    return {status.value: counts[status] for status in Status}


def _shortest_keys(content: Content) -> int:
    """How many digits tell all keys apart."""
    length = SHORTEST_KEY
    for one, other in pairwise(sorted(content.ends)):
        while one[:length] == other[:length]:
            length += 1
    return length


def _setting(setting: Setting) -> dict[str, Any]:
    board = setting.board
    medians = [row.median_absolute_error for row in board.rows if row.median_absolute_error]
    orders: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    place = {id(row): index for index, row in enumerate(board.rows)}
    for by in QUESTIONS:
        other = board if by == "rmse" else reordered(board, by)
        texts[by] = notes(other)
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
    """[row, rank] in the order of the other question."""
    # Rows of the other board are copies; method, device and threads tell them apart.
    known = {_name(row): place[id(row)] for row in board.rows}
    return [[known[_name(row)], row.rank] for row in other.rows]


def _name(row: Any) -> tuple[str, str, str, int]:
    return row.estimator, json.dumps(_rounded(row.params, 17)), row.device, row.threads


def _rows(setting: Setting) -> list[list[Any]]:
    """[method, dirty, statuses, diagnostics, figures...] of each row."""
    return [
        [
            method,
            int(dirty),
            dict(row.status),
            {name: _round(value, 4) for name, value in row.diagnostics.items()},
            *(_round(getattr(row, name), 6) for name in FIGURES),
        ]
        for row, method, dirty in zip(
            setting.board.rows, setting.methods, setting.dirty, strict=True
        )
    ]


def _trials(setting: Setting, key_length: int) -> dict[str, Any]:
    """Trials of a setting in columns; data that rows share once."""
    records = [result.record for group in setting.results for result in group]
    facts = Facts.of(records, setting.board.truth)
    data = {record.trial.data_key: record.trial for record in records}
    place = {key: index for index, key in enumerate(data)}
    texts: dict[str, int] = {}
    return {
        "seed": [trial.seed for trial in data.values()],
        "replicate": [trial.replicate for trial in data.values()],
        "truth": [_round(facts.truth.get(key), 8) for key in data],
        "expected": [_round(facts.expected.get(key), 8) for key in data],
        "naive": [_round(facts.logging_average.get(key), 6) for key in data],
        "cells": [_cell(group, place, texts, key_length) for group in setting.results],
        "texts": list(texts),
    }


def _cell(
    group: Sequence[Result], place: Mapping[str, int], texts: dict[str, int], key_length: int
) -> dict[str, Any]:
    records = [result.record for result in group]
    faults = {
        index: [
            None if text is None else texts.setdefault(text, len(texts))
            for text in (one.error_type, one.error_message, one.traceback, one.output_tail)
        ]
        for index, one in enumerate(records)
        if one.error_type or one.error_message or one.traceback or one.output_tail
    }
    columns: dict[str, list[Any]] = {
        "estimate": [_round(one.estimate, 8) for one in records],
        "fallback": [_round(one.fallback, 6) for one in records],
        "standard_error": [_round(one.standard_error, 4) for one in records],
        "fit_seconds": [_round(one.fit_seconds, 3) for one in records],
        "estimate_seconds": [_round(one.estimate_seconds, 3) for one in records],
    }
    return {
        "data": [place[one.trial.data_key] for one in records],
        "key": "".join(one.trial.key[:key_length] for one in records),
        "digits": key_length,
        "status": "".join(DIGIT[one.status] for one in records),
        # A column without a value in it takes no room.
        **{
            name: values
            for name, values in columns.items()
            if any(value is not None for value in values)
        },
        **({"faults": faults} if faults else {}),
    }


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def _round(value: Any, digits: int) -> Any:
    """A number to some significant digits; null where it is not finite."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one, digits) for one in value]
    if isinstance(value, float):
        return _round(value, digits)
    return value if value is None or isinstance(value, str | int | bool) else str(value)
