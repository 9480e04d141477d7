"""The charts as files for a paper: SVG, PNG and PDF of one column's width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ope_bench.report import charts, tables
from ope_bench.report.content import Content
from ope_bench.report.html import needs_extra
from ope_bench.report.sweeps import sweeps

__all__ = ["FORMATS", "PAPER", "write_figures"]

FORMATS = ("svg", "png", "pdf")

WIDTH = 240
"""Points: 3.33 inches, a column."""

PALETTE = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b",
    "#7f7f7f", "#bcbd22", "#9467bd", "#17becf",
]  # fmt: skip

PAPER: Mapping[str, Any] = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "view": {"stroke": "transparent"},
    "range": {"category": PALETTE},
    "axis": {
        "labelFontSize": 7,
        "titleFontSize": 8,
        "titleFontWeight": "normal",
        "grid": True,
        "gridColor": "#e6e6e6",
        "gridWidth": 0.5,
        "domainWidth": 0.6,
        "tickWidth": 0.6,
        "tickSize": 3,
    },
    "legend": {
        "orient": "bottom",
        "columns": 3,
        "titleFontSize": 7,
        "titleFontWeight": "normal",
        "labelFontSize": 7,
        "labelLimit": 90,
        "symbolSize": 30,
        "rowPadding": 1,
        "columnPadding": 6,
    },
    "title": {"fontSize": 8, "fontWeight": "normal"},
}

Figure = tuple[str, Any, Mapping[str, Any]]


def write_figures(content: Content, folder: Path) -> list[Path]:
    """Every chart that the content has data for, in every format.

    Parameters
    ----------
    content : what to draw.
    folder : made where it is missing.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart, data in _figures(content):
        spec = chart.to_dict() | {"config": dict(PAPER), "datasets": dict(data)}
        _colour(spec, [method.label for method in content.methods], data)
        drawn = {
            "svg": vl_convert.vegalite_to_svg(spec).encode(),
            "png": vl_convert.vegalite_to_png(spec, ppi=300),
            "pdf": vl_convert.vegalite_to_pdf(spec),
        }
        for form in FORMATS:
            path = folder / f"{name}.{form}"
            path.write_bytes(drawn[form])
            written.append(path)
    return written


def _colour(spec: Any, labels: Sequence[str], data: Mapping[str, Any]) -> None:
    """Give every method the same colour in every figure."""
    drawn = {line.get("method") for lines in data.values() for line in lines}
    present = [index for index, label in enumerate(labels) if label in drawn]
    scale = {
        "domain": [labels[index] for index in present],
        "range": [PALETTE[index % len(PALETTE)] for index in present],
    }
    waiting: list[Any] = [{**spec, "datasets": None}]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("field") == "method" and "legend" in node:
                node["scale"] = scale
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _figures(content: Content) -> Iterator[Figure]:
    names: set[str] = set()

    def named(*words: str) -> str:
        name = re.sub(r"[^a-z0-9.]+", "-", " ".join(words).lower()).strip("-.")[:80]
        while name in names:
            name += "-again"
        names.add(name)
        return name

    for sweep in sweeps(content.settings):
        logarithmic = sweep.at[0][0] > 0
        lines = tables.sweep_table(content, sweep)
        for measure in ("rmse", "log10_rmse"):
            table = [line for line in lines if line["rmse"]]
            if table:
                chart = charts.sweep(sweep.parameter, measure, logarithmic=logarithmic)
                shaped = chart.properties(width=WIDTH - 36, height=150)
                yield named("sweep", measure, sweep.title), shaped, {"table": table}
    for environment in dict.fromkeys(one.board.environment for one in content.settings):
        settings = [one for one in content.settings if one.board.environment == environment]
        table = tables.setting_table(content, settings)
        told = ("unsupported_mass", "observed_unsupported_mass")
        mass = any(line[name] is not None for line in table for name in told)
        yield named("positivity", environment), charts.positivity(mass=mass), {"table": table}
    for title, summary in content.across:
        parts = tables.rank_tables(content.labels_of(summary), summary)
        if parts["methods"]:
            levels = len(parts["bars"]) + (len(parts["methods"]) + 1) // 2
            shaped = charts.ranks().properties(width=2 * WIDTH, height=30 + 14 * levels)
            yield named("ranks", title), shaped, parts
    for setting in content.settings:
        yield from _of_setting(content, setting, named)


def _of_setting(content: Content, setting: Any, named: Any) -> Iterator[Figure]:
    board = tables.board_table(content, setting)
    known = [line for line in board if line["rmse"]]
    tall = 11 * max(len(board), 3)
    if not known:
        return
    label = setting.label
    yield (
        named("intervals", label),
        charts.intervals().properties(width=WIDTH - 80, height=tall),
        {"table": known},
    )
    middle = sorted(line["median_absolute_error"] for line in known)[len(known) // 2]
    yield (
        named("errors", label),
        charts.errors(middle or 1.0).properties(width=WIDTH - 80, height=tall),
        {"table": tables.error_table(content, setting)},
    )
    yield (
        named("cdf", label),
        charts.cdf().properties(width=WIDTH - 36, height=140),
        {"table": tables.cdf_table(content, setting)},
    )
    timed = [line for line in known if line["seconds"]]
    if timed:
        shaped = charts.pareto().properties(width=WIDTH - 36, height=140)
        yield named("pareto", label), shaped, {"table": timed}
        names = [line | {"estimator": line["method"]} for line in timed]
        shaped = charts.times().properties(width=WIDTH - 70, height=tall)
        yield named("times", label), shaped, {"table": names}
