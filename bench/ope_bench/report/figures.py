"""Figures in files: which charts of which data, with which axes and captions.

Importing this module imports Altair, which takes a quarter of a second.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import altair as alt

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import UsageError
from ope_bench.base.files import atomic_write
from ope_bench.base.printable import printable
from ope_bench.boards.board import Board
from ope_bench.report import charts
from ope_bench.report import figure_layout as layout
from ope_bench.report.chart_parts import AxisLimits, limits_of
from ope_bench.report.content import (
    Lines,
    ReportData,
    SettingTrials,
    Sweep,
    board_lines,
    cdf_lines,
    error_lines,
    rank_lines,
    sweep_lines,
    sweeps,
)
from ope_bench.report.notes import codes_of_labels, notes_on_codes, notes_on_machines
from ope_bench.report.styles import HIGHLIGHT, Style, apply
from ope_bench.report.tables import span

FORMATS = ("svg", "png", "pdf")

KINDS = tuple(layout.CAPTIONS)
"""Kinds of figures, as they are asked for."""

_YARDSTICK = {"expected": "the target policy's value", "empirical": "the target sample's mean"}

Size = Literal["single", "double"]

MOST_SETTINGS = 12
"""Most settings with figures of their own."""

MOST_SWEEPS = 12

MOST_LINES = 20
"""Most estimators in a chart of lines or points; the best are shown."""

_TALL = 165
"""Points of a chart of lines or points, its legend not counted."""

_BELOW, _BESIDE = 30.0, 36.0
"""Points that a horizontal and a vertical axis take, with labels and title."""


@dataclass(frozen=True)
class Figure:
    """One figure.

    Parameters
    ----------
    kind : one of `KINDS`.
    label, identity : of its subject; the label is short, the identity tells subjects apart.
    boards : the boards whose rows it shows.
    chart : the chart, sized.
    data : its tables, by name.
    stem : beginning of its file's name, by default the kind.
    cut : whether an axis ends below some values.
    marks : those of `CAPTIONS` that it has.
    symbol : width and height of a legend's symbol; None without a legend.
    """

    kind: str
    label: str
    identity: str
    boards: Sequence[Board]
    chart: Any
    data: Mapping[str, Lines]
    stem: str = ""
    cut: bool = False
    marks: Collection[str] = ()
    symbol: tuple[int, int] | None = None

    @property
    def caption(self) -> str:
        """Text to print below it."""
        parts = [f"{self.label}."]
        if n := span(row.replicates for board in self.boards for row in board.rows):
            parts.append(f"{n} data set{'' if n == '1' else 's'} a setting.")
        truths = sorted({board.truth for board in self.boards})
        if truths and self.kind not in ("times", "coverage"):
            parts.append(f"Errors are against {' and '.join(_YARDSTICK[one] for one in truths)}.")
        drawn = (layout.ALWAYS, *self.marks)
        parts += [text for mark, text in layout.CAPTIONS[self.kind].items() if mark in drawn]
        if self.cut:
            parts.append("The axis ends below the largest values, which arrows name.")
        notes = [*notes_on_codes(codes_of_labels(self.boards))]
        if self.kind in ("times", "pareto"):
            notes += notes_on_machines(self.boards)
        parts += [f"{one[0].upper()}{one[1:]}." for one in notes]
        return " ".join(parts)


def figures(
    content: ReportData,
    short: Mapping[str, str],
    *,
    kinds: Sequence[str] = KINDS,
    size: Size = "single",
) -> Iterator[Figure]:
    """Yield the figures of a report.

    Parameters
    ----------
    content : the data of the report.
    short : short labels of the estimators to show, by label.
    kinds : of figures.
    size : one or two columns wide.
    """
    maker = _Maker(content, short, layout.WIDTHS[size])
    if "sweep" in kinds:
        for sweep in sweeps(content.settings)[:MOST_SWEEPS]:
            yield from maker.of_sweep(sweep)
    for kind in ("positivity", "coverage"):
        if kind in kinds:
            for environment in dict.fromkeys(one.board.environment for one in content.settings):
                yield from maker.of_environment(kind, environment)
    if "ranks" in kinds and len(short) == len(content.estimators):
        yield from maker.of_ranks()
    for setting in content.settings[:MOST_SETTINGS]:
        yield from maker.of_setting(setting, kinds)


@dataclass(frozen=True)
class _Maker:
    content: ReportData
    short: Mapping[str, str]
    width: int

    def of_sweep(self, sweep: Sweep) -> Iterator[Figure]:
        table = self._filter_shown(sweep_lines(self.content, sweep))
        lines = [line for line in table if line["rmse"]]
        limits = limits_of(line["rmse"] for line in lines)
        if limits is None:
            return
        best = _best(lines)
        kept = [line for line in lines if line["method"] in best]
        limits = limits_of(line["rmse"] for line in kept) or limits
        at = sorted({value for value, _ in sweep.at})
        settings = [self.content.settings[index] for _, index in sweep.at]
        identity = canonical_json([setting.label for setting in settings])
        measures: tuple[charts.Measure, ...] = ("rmse", "log10_rmse")
        for measure in measures:
            chart = charts.sweep(
                sweep.axis,
                measure,
                logarithmic=at[0] > 0,
                at=at if len(at) <= 8 else None,
                limits=limits,
                labels=True,
            )
            scale = math.log10 if measure == "rmse" else float
            ends = layout.line_ends(kept, measure, _frame(limits, _TALL - _BELOW), scale)
            chart = self._fit(chart, _TALL, of=len({line["method"] for line in lines}))
            data = {"table": kept, "ends": ends}
            stem = f"sweep-{measure.replace('_', '-')}"
            boards = [setting.board for setting in settings]
            label, cut, marks = sweep.title, limits.cut, _marks_of_sweep(kept, limits)
            # Where it did not run a line ends as well, which needs no words.
            if any(not line["rmse"] for line in table if line["method"] in best):
                marks.add("ends")
            yield Figure(
                "sweep", label, identity, boards, chart, data, stem=stem, cut=cut, marks=marks
            )

    def of_environment(self, kind: str, environment: str) -> Iterator[Figure]:
        settings = [one for one in self.content.settings if one.board.environment == environment]
        table = self._filter_shown(
            line for setting in settings for line in board_lines(self.content, setting)
        )
        symbol, marks = None, ""
        if kind == "coverage":
            table = [line for line in table if line["median_interval_width"]]
            if not table:
                return
            widths = [line["median_interval_width"] for line in table]
            chart = charts.coverage(widths=AxisLimits(min(widths), max(widths)))
            chart, symbol = self._fit(chart, _TALL), layout.POINT
        else:
            table = [
                line | {"setting": line["setting"].removeprefix(f"{environment} ")}
                for line in table
            ]
            known = ("unsupported_mass", "observed_unsupported_mass")
            mass = any(line[name] is not None for line in table for name in known)
            row = _row_height(len({line["method"] for line in table}))
            chart = charts.positivity(mass=mass, cell=26, row=row)
            marks = "mass" if mass else ""
        boards = [one.board for one in settings]
        data = {"table": table}
        yield Figure(
            kind, environment, environment, boards, chart, data, symbol=symbol, marks=[marks]
        )

    def of_ranks(self) -> Iterator[Figure]:
        for title, summary in self.content.across:
            labels = [self.short[label] for label in self.content.labels_of(summary)]
            parts = rank_lines(labels, summary)
            if parts["methods"]:
                levels = len(parts["bars"]) + (len(parts["methods"]) + 1) // 2
                longest = max(len(line["method"]) for line in parts["methods"])
                chart = charts.ranks(12 + round(layout.LETTER * (longest + 6)))
                chart = self._fit(chart, 36 + 10 * levels, width=layout.WIDTHS["double"])
                marks = [name for name in ("bars",) if parts[name]]
                yield Figure("ranks", title, title, [], chart, parts, marks=marks)

    def of_setting(self, setting: SettingTrials, kinds: Sequence[str]) -> Iterator[Figure]:
        table = self._filter_shown(board_lines(self.content, setting))
        known = [line for line in table if line["rmse"]]
        limits = limits_of(line["rmse"] for line in known)
        if limits is None:
            return
        board = setting.board
        params, worlds = board.environment_params, board.worlds
        whole = [board.environment, params, worlds, board.environment_version, board.truth]
        figure = partial(
            Figure, label=setting.label, identity=canonical_json(whole), boards=[board]
        )
        rows = 30 + _row_height(len(table)) * max(len(table), 3)
        if "intervals" in kinds:
            # With room for the ticks of medians, unless one is almost zero.
            medians = [line["median_absolute_error"] or limits.low for line in known]
            low = max(min(limits.low, *medians), limits.low / 10)
            chart = self._fit(charts.intervals(limits=replace(limits, low=low)), rows)
            marks = _marks(known, limits)
            yield figure(
                "intervals", chart=chart, data={"table": known}, cut=limits.cut, marks=marks
            )
        if "errors" in kinds:
            errors = self._filter_shown(error_lines(self.content, setting))
            unit = _quantile([line["median_absolute_error"] for line in known], 0.5) or 1.0
            most = 10 * _quantile([abs(line["error"]) for line in errors], 0.9)
            largest = max(abs(line["error"]) for line in errors)
            marks = {"beyond"} if largest > most else set()
            most = min(most, largest) or unit
            chart = self._fit(charts.errors(unit, most=most), rows)
            yield figure("errors", chart=chart, data={"table": errors}, marks=marks)
        if "cdf" in kinds:
            best = _best(known)
            steps = self._filter_shown(cdf_lines(self.content, setting))
            steps = [line for line in steps if line["method"] in best]
            least = min(line["rmse"] for line in known)
            squares = AxisLimits(least**2 / 1000, limits.domain[1] ** 2)
            chart = self._fit(charts.cdf(limits=squares), _TALL, of=len(known))
            marks = _marks_of_cdf(steps, squares)
            yield figure(
                "cdf", chart=chart, data={"table": steps}, symbol=layout.STROKE, marks=marks
            )
        timed = [line for line in known if line["seconds"]]
        seconds = limits_of(line["seconds"] for line in timed)
        if seconds is None:
            return
        if "pareto" in kinds:
            best = _best(timed)
            kept = [line for line in timed if line["method"] in best]
            limits = limits_of(line["rmse"] for line in kept) or AxisLimits(0.1, 1.0)
            times = [line["seconds"] for line in kept]
            across = AxisLimits(min(times), max(times))
            names = layout.point_names(
                [line for line in kept if line["rmse"] <= limits.domain[1]],
                _frame(across, self.width - _BESIDE),
                _frame(limits, _TALL - _BELOW),
                layout.LETTER,
            )
            chart = charts.pareto(limits=limits, seconds=across, labels=True)
            chart = self._fit(chart, _TALL, of=len(timed))
            tables = {"table": kept, "names": names}
            marks = _marks(kept, limits)
            yield figure("pareto", chart=chart, data=tables, cut=limits.cut, marks=marks)
        if "times" in kinds:
            named = [line | {"estimator": line["method"]} for line in timed]
            spent = [line[part] for line in timed for part in ("fit_seconds", "estimate_seconds")]
            ends = limits_of(spent) or seconds
            across = AxisLimits(ends.low, max(filter(None, spent), default=ends.high))
            chart = self._fit(charts.times(seconds=across), rows + 20)
            yield figure("times", chart=chart, data={"table": named}, symbol=layout.POINT)

    def _filter_shown(self, table: Iterable[dict[str, Any]]) -> Lines:
        """Return the rows of shown estimators, with short labels."""
        names = ("method", "estimator")
        return [
            line | {name: self.short[line[name]] for name in names if name in line}
            for line in table
            if line["method"] in self.short
        ]

    def _fit(self, chart: Any, height: int, *, width: int | None = None, of: int = 0) -> Any:
        """Fit chart, axes and legend into a size.

        Parameters
        ----------
        of : number of all estimators, of which a chart of lines shows the best.
        """
        note: Any = {}
        if of > MOST_LINES:
            words = f"the {MOST_LINES} best of {of} estimators"
            note = {"title": alt.Title(words, anchor="end", color="#666")}
        return chart.properties(
            width=width or self.width,
            height=height,
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
            # To the right, room for names in a font wider than the one they were measured in.
            padding={"left": 2, "top": 4, "right": 14, "bottom": 2},
            **note,
        )


def _marks(lines: Lines, limits: AxisLimits) -> set[str]:
    """Return which marks a chart of the lines' RMSEs has."""
    inside = [line for line in lines if line["rmse"] <= limits.domain[1]]
    bars = [line for line in lines if line["rmse_low"] is not None]
    fastest = min(inside, key=lambda line: (line["seconds"] or math.inf, line["rmse"]))
    drawn = {
        "hollow": any(line["failure_rate"] for line in inside),
        "bars": bool(bars),
        "dashed": any(line["heavy_tailed"] for line in bars),
        "ticks": any(line["median_absolute_error"] for line in lines),
        # The line joins at least two points.
        "front": any(line["rmse"] < fastest["rmse"] for line in inside),
    }
    return {name for name, is_drawn in drawn.items() if is_drawn}


def _marks_of_sweep(lines: Lines, limits: AxisLimits) -> set[str]:
    """Return which marks a chart of the lines' RMSEs along a parameter has."""
    by_method: dict[str, list[bool]] = {}
    for line in sorted(lines, key=lambda line: line["value"]):
        banded = not line["heavy_tailed"] and bool(line["rmse_low"])
        by_method.setdefault(line["method"], []).append(banded)
    found = by_method.values()
    bands = any(a and b for banded in found for a, b in pairwise(banded))
    drawn = {
        "bands": bands,
        "gaps": bands and any(line["heavy_tailed"] for line in lines),
    }
    return _marks(lines, limits) | {name for name, is_drawn in drawn.items() if is_drawn}


def _marks_of_cdf(steps: Lines, limits: AxisLimits) -> set[str]:
    """Return which marks a chart of distributions of squared error has."""
    end = {line["method"]: line["share"] for line in steps}
    shown = {line["method"] for line in steps if line["squared_error"] <= limits.domain[1]}
    drawn = {"ends": any(end[method] < 1 for method in shown), "beyond": len(shown) < len(end)}
    return {name for name, is_drawn in drawn.items() if is_drawn}


def _frame(limits: AxisLimits, length: float) -> layout.Frame:
    """Return the drawn part of a logarithmic axis."""
    low, high = map(math.log10, limits.domain)
    return layout.Frame(low, high, length)


def _row_height(rows: int) -> int:
    """Return the height of a row in points, so that seventy rows fit on a page."""
    return 11 if rows <= 45 else 8


def _quantile(values: Sequence[float], share: float) -> float:
    known = sorted(values)
    return known[min(int(share * len(known)), len(known) - 1)] if known else 0.0


def _best(lines: Lines) -> list[str]:
    """Return the estimators with the smallest RMSE over all lines, as many as a chart can show."""
    sizes: dict[str, list[float]] = {}
    for line in lines:
        sizes.setdefault(line["method"], []).append(line["log10_rmse"])
    return sorted(sizes, key=lambda method: sum(sizes[method]) / len(sizes[method]))[:MOST_LINES]


# Files


@dataclass(frozen=True)
class WrittenFigures:
    """The written figures.

    Parameters
    ----------
    paths : the files.
    left_out : which figures were omitted, in one line; None if none.
    """

    paths: tuple[Path, ...]
    left_out: str | None = None


def write_figures(
    content: ReportData,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    labels: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
    highlighted: Collection[str] = (),
    size: Size = "single",
) -> WrittenFigures:
    """Write every chart that has data as SVG, PNG and PDF, its caption in a text and in the SVG.

    Parameters
    ----------
    content : the data of the report.
    folder : created if missing.
    kinds : of figures.
    labels : labels of the estimators to show, None for all.
    names : texts that replace labels.
    highlighted : labels of the estimators that stand out.
    size : one or two columns wide.

    Raises
    ------
    UsageError : a file cannot be written.
    """
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    short, looks = content.looks
    named: dict[str, str] = {**short, **(names or {})}
    looks = {named[label]: looks[short[label]] for label in short}
    strong = [named[label] for label in highlighted]
    looks |= dict.fromkeys(strong, HIGHLIGHT)
    shown = {label: named[label] for label in named if labels is None or label in labels}
    drawn = list(figures(content, shown, kinds=kinds, size=size))
    written = []
    subjects = [(f"{one.stem or one.kind} {one.label}", one.identity) for one in drawn]
    for stem, figure in zip(layout.file_names(subjects), drawn, strict=True):
        svg = vl_convert.vegalite_to_svg(figure_spec(figure, looks, strong))
        files = {
            "svg": compact_svg(svg, figure.caption).encode(),
            "png": vl_convert.svg_to_png(svg, ppi=300),
            "pdf": vl_convert.svg_to_pdf(svg),
            "txt": f"{figure.caption}\n".encode(),
        }
        for form, data in files.items():
            path = folder / f"{stem}.{form}"
            with atomic_write(path, UsageError) as partial:
                partial.write_bytes(data)
            written.append(path)
    parts = []
    if len(content.settings) > MOST_SETTINGS:
        parts.append(
            f"single settings: the first {MOST_SETTINGS} of {len(content.settings)} drawn"
        )
    if (found := len(sweeps(content.settings))) > MOST_SWEEPS:
        parts.append(f"sweeps: the longest {MOST_SWEEPS} of {found} drawn")
    left_out = f"{'; '.join(parts)}; --suite or --run selects others" if parts else None
    return WrittenFigures(tuple(written), left_out)


def compact_svg(svg: str, caption: str) -> str:
    """Return an SVG with its caption as description, at half its size or less.

    What goes: names of Vega's marks, empty paths, and digits beyond hundredths of a point.
    """
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    root = ET.fromstring(svg)  # noqa: S314  our own chart
    for node in [*root.iter()]:
        for name, value in [*node.items()]:
            if name in ("class", "pointer-events", "role") or name.startswith("aria-"):
                del node.attrib[name]
            else:
                node.set(
                    name,
                    re.sub(r"-?\d+\.\d{3,}", lambda one: f"{round(float(one[0]), 2):g}", value),
                )
        for part in [*node]:
            if part.get("d") in ("", "M0,0h0v0h0Z"):
                node.remove(part)
    description = ET.Element(root.tag.replace("}svg", "}desc"))
    description.text = caption
    root.insert(0, description)
    return ET.tostring(root, encoding="unicode")


def figure_spec(
    figure: Figure, looks: Mapping[str, Style], highlighted: Collection[str] = ()
) -> dict[str, Any]:
    """Return the Vega-Lite specification of a figure, with its data and in its final style.

    Parameters
    ----------
    figure : the figure.
    looks : styles by short label.
    highlighted : short labels of the estimators that stand out.
    """
    spec: dict[str, Any] = figure.chart.to_dict(validate=False)
    present = {line.get("method") for lines in figure.data.values() for line in lines}
    chosen = {label: style for label, style in looks.items() if label in present}
    apply(spec, chosen, "white", highlighted)
    height, legend = layout.legend(list(chosen), figure.symbol or layout.POINT)
    if figure.symbol and figure.kind != "times":
        spec["height"] += height
    data = {name: [dict(line) for line in lines] for name, lines in figure.data.items()}
    whole = spec | {"config": layout.config() | {"legend": legend}, "datasets": data}
    drawn: dict[str, Any] = _printable(whole)
    return drawn


def _printable(value: Any) -> Any:
    """Return a specification with control characters as escapes, of which the renderer dies."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(one) for key, one in value.items()}
    return [*map(_printable, value)] if isinstance(value, list | tuple) else value
