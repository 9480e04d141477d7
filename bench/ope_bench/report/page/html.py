"""Pages, each one HTML file that needs no network and no server.

A report's page is drawn by scripts from its data; the page of a log has finished sections.
"""

from __future__ import annotations

import base64
import inspect
import itertools
import json
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from ope_bench import __version__
from ope_bench.base.canonical import plain
from ope_bench.base.errors import OpeBenchError
from ope_bench.base.files import gc_disabled
from ope_bench.boards.board import Board, ReplicateFacts
from ope_bench.boards.built_in_columns import (
    COLUMNS,
    LAYOUTS,
    OPEN,
    column_registry,
    select_columns,
)
from ope_bench.boards.columns import BoardColumn
from ope_bench.boards.leaderboard import reordered
from ope_bench.boards.over_settings import Summary
from ope_bench.boards.tracks import track_boards
from ope_bench.contracts.arrays import FloatArray
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.registry import registry
from ope_bench.report import needs_extra
from ope_bench.report.content import (
    ReportData,
    SettingTrials,
    figure_columns,
    rank_lines,
    summaries_of,
    sweeps,
)
from ope_bench.report.notes import board_notes, findings
from ope_bench.report.page.libraries import chart_spec, chart_specs, vega
from ope_bench.store.reader import RUN_COLUMNS
from ope_bench.suites.suite import suite_files
from ope_bench.trials.status import Severity, Status

# A report's data for the page: compact JSON, with trials compressed by setting.

_NOTED = {by: [key for key in layout.shown if key != "access"] for by, layout in LAYOUTS.items()}
"""The columns whose notes the page shows; it shows access in words instead of letters."""

BESIDE_FIGURES = ("estimator", "access", "device", "status")
"""Columns of the page whose values are not statistics of a row."""

SEVERITY = {one: one.name.lower().replace("_", "-") for one in Severity}
"""The page's style classes for statuses."""

MOST_TRIALS = 150_000
"""Most trials in a page: about 7 MB. Boards and their figures are always of all trials."""


def payload(content: ReportData) -> dict[str, Any]:
    """Return the data of the page, as plain JSON."""
    # As many digits as make all keys distinct, for readers at least ten.
    digits = 10
    for one, other in itertools.pairwise(sorted(content.ends)):
        while one[:digits] == other[:digits]:
            digits += 1
    short, styles = content.looks
    shown = [*(COLUMNS[key] for key in BESIDE_FIGURES), *figure_columns()]
    machines: list[Any] = []
    for run in content.runs:
        machine = _rounded(run.machine, 17)
        if machine not in machines:
            machines.append(machine)
    done = outcomes_of_runs(content)
    ends = Counter(content.ends.values())
    embedded, left_out = _embedded_settings(content)
    return {
        "schema": 1,
        "version": __version__,
        "made": time.time(),
        "store": str(content.store),
        "suite": content.suite,
        "run": content.run,
        "runs": [
            {name: getattr(run, name) for name in RUN_COLUMNS}
            | {"machine": machines.index(_rounded(run.machine, 17)), "done": done[run.id]}
            for run in content.runs
        ],
        "machines": machines,
        "status": {status.value: ends[status] for status in Status},
        "statuses": [status.value for status in Status],
        "severity": {status.value: SEVERITY[status.severity] for status in Status},
        "columns": {one["key"]: one for one in _describe_columns(shown)},
        "layouts": {
            by: {
                "title": layout.title,
                "headline": layout.headline,
                "shown": [column.key for column in column_registry().layout(by)],
                "further": list(layout.further),
            }
            for by, layout in LAYOUTS.items()
        },
        "methods": [
            {
                "label": one.label,
                "short": short[one.label],
                "estimator": one.estimator,
                "params": _rounded(dict(one.spec.params), 17),
                "device": one.device,
                "access": list(one.access),
                "origin": one.origin,
                "third_party": one.third_party,
            }
            for one in content.estimators
        ],
        "settings": [_setting(setting) for setting in content.settings],
        "figures": [column.key for column in figure_columns()],
        "rows": [line for setting in content.settings for line in _rows(setting)],
        "sweeps": [
            {
                "title": sweep.title,
                "parameter": sweep.axis,
                "at": [[value, index] for value, index in sweep.at],
                "logarithmic": sweep.at[0][0] > 0,
            }
            for sweep in sweeps(content.settings)
        ],
        "groups": groups_of(content),
        "docstrings": _docstrings(content),
        "charts": chart_specs(),
        "styles": [[one.color, list(one.dash), one.shape] for one in styles.values()],
        "left_out": left_out,
        "trials": [
            _trials(setting, digits) if place < embedded else None
            for place, setting in enumerate(content.settings)
        ],
    }


def _embedded_settings(content: ReportData) -> tuple[int, str]:
    """Return how many settings have their trials in the page, and where the others are.

    A setting's trials are in the page all or not at all, so that no chart shows a part of them.
    """
    sizes = [setting.size for setting in content.settings]
    shown = sum(total <= MOST_TRIALS for total in itertools.accumulate(sizes))
    if shown == len(sizes):
        return shown, ""
    return shown, (
        f"The boards are of all {sum(sizes):,} trials. The trials themselves are in this page for "
        f"the first {shown:,} of {len(sizes):,} settings, {sum(sizes[:shown]):,} trials. "
        f"`ope-bench export --store {content.store} --to trials.csv` writes all of them; "
        "`ope-bench report` with --suite or --run makes a page of some."
    )


# Suites and runs


def groups_of(content: ReportData) -> list[dict[str, Any]]:
    """Return a group of each suite, the suite of the newest run first, and one of everything.

    A setting belongs to every suite of which it has a trial. A group has the name of its suite
    (empty for everything) and the suite's title if a distribution ships it, the places of its
    settings in the report, sentences on its boards, and ranks and tracks over its settings.

    Parameters
    ----------
    content : the data of the report.
    """
    members: dict[str, list[int]] = {run.suite: [] for run in reversed(content.runs)}
    suite_of = {run.id: run.suite for run in content.runs}
    for place, setting in enumerate(content.settings):
        runs = {run for group in setting.trials for run in group.selected_by.tolist()}
        for suite in {suite_of[run] for run in runs}:
            members.setdefault(suite, []).append(place)
    found: list[tuple[str, Sequence[int]]] = [one for one in members.items() if one[1]]
    if len(found) > 1:
        found.append(("", range(len(content.settings))))
    titles = {one.id: one.title for one in suite_files()}
    groups = []
    for suite, places in found:
        settings = [content.settings[place] for place in places]
        groups.append(
            {
                "suite": suite,
                "title": titles.get(suite, "") if suite else "",
                "settings": list(places),
                "sentences": _sentences(content, settings),
                "ranks": [
                    _ranks(name, summary, content.labels_of(summary))
                    for name, summary in summaries_of(settings)
                ],
                "tracks": _tracks(content, settings),
            }
        )
    return groups


def _tracks(content: ReportData, settings: Sequence[SettingTrials]) -> list[dict[str, Any]]:
    """Return the boards of the tracks on some settings of the report."""
    names = {setting.board.spec.identity_json for setting in settings}
    boards = track_boards([one for one in content.tracks if one.key[0] in names])
    return [
        {
            "title": board.title,
            **_table(
                select_columns(board.layout, board.columns),
                board.rows,
                [row.label for row in board.rows],
            ),
        }
        for board in boards
    ]


def _sentences(content: ReportData, settings: Sequence[SettingTrials]) -> list[str]:
    """Return sentences on what boards show, with the labels that the page uses."""
    by_truth: dict[str, list[Board]] = {}
    for setting in settings:
        rows = [replace(row, label=label) for label, row, _ in content.rows_of(setting)]
        board = replace(setting.board, label=setting.label, rows=tuple(rows))
        by_truth.setdefault(board.truth, []).append(board)
    return [
        sentence if len(by_truth) == 1 else f"Against the {truth} truth: {sentence}"
        for truth, boards in by_truth.items()
        for sentence in findings(boards)
    ]


def outcomes_of_runs(content: ReportData) -> Counter[str]:
    """Count the trials of each run that have an outcome, reused ones too, by the run's id.

    A trial of several runs counts for the newest.
    """
    return Counter(
        run
        for setting in content.settings
        for group in setting.trials
        for run in group.selected_by.tolist()
    )


def _docstrings(content: ReportData) -> dict[str, str]:
    """Return the docstrings of the report's estimators that are installed, by id."""
    wanted = {method.estimator for method in content.estimators}
    known: dict[str, str] = {}
    for plugin in registry().plugins("estimator"):
        # A package that is broken or lacks a dependency has none; its numbers are still shown.
        with suppress(OpeBenchError):
            if plugin.id in wanted:
                known[plugin.id] = inspect.cleandoc(plugin.cls.__doc__ or "")
    return known


# Boards


def _describe_columns(columns: Iterable[BoardColumn]) -> list[dict[str, Any]]:
    names = ("key", "title", "explanation", "format", "hide_empty")
    return [
        {name: getattr(column, name) for name in names}
        | {"number": column.numeric, "mark": asdict(column.mark) if column.mark else None}
        for column in columns
    ]


def _ranks(name: str, summary: Summary, labels: Sequence[str]) -> dict[str, Any]:
    return {
        "title": name,
        "settings": summary.settings,
        "complete": summary.complete,
        "critical_difference": _rounded(summary.critical_difference, 6),
        **_table(summary.columns, summary.rows, labels),
        **_rounded(rank_lines(labels, summary), 6),
    }


def _table(
    columns: Sequence[BoardColumn], rows: Iterable[Any], labels: Iterable[str]
) -> dict[str, Any]:
    """Return a table for the page, whose names of estimators are these labels."""
    return {
        "columns": _describe_columns(columns),
        "rows": [
            [
                label if column.format == "estimator" else _rounded(column.value(row), 6)
                for column in columns
            ]
            for row, label in zip(rows, labels, strict=True)
        ],
    }


def _setting(setting: SettingTrials) -> dict[str, Any]:
    board = setting.board
    sizes = (row.errors.median_absolute_error for row in board.rows)
    medians = [size for size in sizes if size]
    orders: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    place = {row.key: index for index, row in enumerate(board.rows)}
    for by in LAYOUTS:
        other = board if by == "rmse" else reordered(board, by)
        notes = board_notes(other, _NOTED[by])
        # Ties are bold on the page, and no cell has the mark of what is open.
        texts[by] = [note for note in notes if not note.startswith(f"{OPEN} ")]
        # Rows of the other board are copies.
        orders[by] = [[place[row.key], row.rank] for row in other.rows]
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
        "truth_se": _rounded(board.truth_se, 6),
        "truth_rms": _rounded(board.truth_rms, 6),
        "unit": _rounded(sorted(medians)[len(medians) // 2], 3) if medians else 1.0,
        "rows": len(board.rows),
        "ranks": orders,
        "notes": texts,
    }


def _rows(setting: SettingTrials) -> list[list[Any]]:
    """Return [estimator, dirty, statuses, diagnostics, figures...] of each row."""
    figures = figure_columns()
    return [
        [
            estimator,
            int(dirty),
            dict(row.status),
            {name: _rounded(one.median, 4) for name, one in row.diagnostics.items()},
            *(_rounded(column.value(row), 6) for column in figures),
        ]
        for row, estimator, dirty in zip(
            setting.board.rows, setting.estimators, setting.dirty, strict=True
        )
    ]


# Trials


def _trials(setting: SettingTrials, key_length: int) -> str:
    """Return the trials of a setting by column, compressed; data shared by rows appear once."""
    outcomes = setting.outcomes()
    facts = ReplicateFacts.of(outcomes, setting.board.truth)
    # The last entry of the facts is that of no replicate.
    first = np.unique(facts.at(outcomes), return_index=True)[1]
    texts: dict[str, int] = {}
    trials = {
        "seed": outcomes.seed[first].tolist(),
        "replicate": outcomes.replicate[first].tolist(),
        "truth": _rounded(facts.truth[:-1].tolist(), 8),
        "expected": _rounded(facts.expected[:-1].tolist(), 8),
        "naive": _rounded(facts.logging_average[:-1].tolist(), 6),
        "cells": [_trials_of_row(group, facts, texts, key_length) for group in setting.trials],
        "texts": list(texts),
    }
    text = json.dumps(trials, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


_FAULTS = ("error_type", "error_message", "traceback", "output_tail")
_DIGITS = {
    "estimate": 8,
    "fallback": 6,
    "standard_error": 4,
    "interval_low": 6,
    "interval_high": 6,
    "fit_seconds": 3,
    "estimate_seconds": 3,
}
"""Significant digits of the columns of trials."""


def _trials_of_row(
    group: Outcomes, facts: ReplicateFacts, texts: dict[str, int], key_length: int
) -> dict[str, Any]:
    told = zip(*(getattr(group, name).tolist() for name in _FAULTS), strict=True)
    faults = {
        index: [None if text is None else texts.setdefault(text, len(texts)) for text in one]
        for index, one in enumerate(told)
        if any(one)
    }
    columns = {name: getattr(group, name) for name in _DIGITS}
    return {
        "data": facts.at(group).tolist(),
        "key": "".join(key[:key_length] for key in group.key.tolist()),
        "digits": key_length,
        "status": "".join(map(str, group.status.tolist())),
        # Columns without values are omitted.
        **{
            name: _rounded_column(values, _DIGITS[name])
            for name, values in columns.items()
            if np.isfinite(values).any()
        },
        **({"faults": faults} if faults else {}),
    }


def _rounded(value: Any, digits: int) -> Any:
    """Round all numbers to significant digits; null for those that are not finite."""
    return plain(value, lambda number: _shortest(f"{number:.{digits}g}"))


def _rounded_column(values: FloatArray, digits: int) -> list[float | int | None]:
    """Round a column as `_rounded` does, without a walk through each number's type."""
    texts = map(f"%.{digits}g".__mod__, values.tolist())
    known = np.isfinite(values).tolist()
    return [_shortest(text) if one else None for text, one in zip(texts, known, strict=True)]


def _shortest(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


_BOARDS = (
    *("core", "edges", "table", "charts", "about", "result", "boards", "across", "trials"),
    *("runs", "words", "main"),
)
"""The scripts of the page of boards in order; they share one scope."""


def render_page(content: ReportData) -> str:
    """Render the page of boards, whose script draws it from its data.

    Parameters
    ----------
    content : the data of the report.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    with gc_disabled():
        data = escaped_json(payload(content))
    parts = {"TITLE": "ope-bench report", "SCOPE": "", "SECTIONS": ""}
    parts["BODY"] = read_part("boards.html")
    return _fill_skeleton(parts, data, _BOARDS, vega)


@dataclass(frozen=True)
class PageChart:
    """A chart of a page that is drawn from a finished specification.

    Parameters
    ----------
    name : distinct on the page.
    title, words : above and below it.
    chart : an Altair chart that names its data ``table``.
    lines : its data.
    height : pixels.
    """

    name: str
    title: str
    words: str
    chart: Any
    lines: Sequence[dict[str, Any]]
    height: int


@dataclass(frozen=True)
class PageSection:
    """A section of a page: a heading, markup, and charts.

    Parameters
    ----------
    name : address within the page.
    title : heading.
    body : HTML, escaped.
    charts : below the body.
    """

    name: str
    title: str
    body: str
    charts: Sequence[PageChart] = ()


def render_sections(
    title: str, sections: Sequence[PageSection], footer: str, *, script: Callable[[], str] = vega
) -> str:
    """Render a page of sections with charts; tables need no script.

    Parameters
    ----------
    title : of the page.
    sections : in order.
    footer : text below them.
    script : returns the Vega script.
    """
    links, main, data = "", "", {}
    for section in sections:
        name, heading = escape(section.name), escape(section.title)
        links += f'<a href="#{name}">{heading}</a> '
        main += f'<section id="{name}"><h2>{heading}</h2>{section.body}'
        if section.charts:
            main += f'<div class="figures">{"".join(map(_figure, section.charts))}</div>'
        main += "</section>"
        for chart in section.charts:
            spec = chart_spec(chart.chart)
            data[chart.name] = {"spec": spec, "lines": chart.lines, "height": chart.height}
    parts = {"TITLE": escape(title), "SCOPE": escape(title), "SECTIONS": links}
    parts["BODY"] = fill(read_part("sections.html"), {"MAIN": main, "FOOTER": escape(footer)})
    return _fill_skeleton(parts, escaped_json(data), ("edges", "sections"), script)


def _figure(chart: PageChart) -> str:
    label = escape(f"{chart.title}. {chart.words}")
    return (
        f'<figure data-chart="{escape(chart.name)}">'
        f"<figcaption>{escape(chart.title)}</figcaption>"
        f'<div class="chart" role="img" aria-label="{label}"></div>'
        f'<p class="notes">{escape(chart.words)}</p></figure>'
    )


def _fill_skeleton(
    parts: Mapping[str, str], data: str, scripts: Sequence[str], vega_script: Callable[[], str]
) -> str:
    script = "\n".join(read_part(f"scripts/{name}.js") for name in ("theme", *scripts))
    common = {"STYLE": read_part("page.css"), "DATA": data, "VEGA": vega_script()}
    return fill(read_part("page.html"), {**parts, **common, "SCRIPT": script})


def fill(template: str, parts: dict[str, str]) -> str:
    """Replace each ``@@NAME@@`` of the template once, but not inside inserted parts."""
    return re.sub("@@(.*?)@@", lambda found: parts[found[1]], template)


def escaped_json(value: Any) -> str:
    """Serialize JSON that is safe inside a script element, for any texts.

    >>> escaped_json("</script>&")
    '"\\\\u003c/script\\\\u003e\\\\u0026"'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def read_part(name: str) -> str:
    """Return a file of the page."""
    return (files("ope_bench.report.page") / name).read_text(encoding="utf-8")
