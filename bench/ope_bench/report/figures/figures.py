"""The figures of a report: which charts, of which data, with which axes and captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ope_bench.boards.board import Board
from ope_bench.canonical import canonical_json
from ope_bench.report import charts
from ope_bench.report.charts import data as tables
from ope_bench.report.charts.axes import Limits, limits_of
from ope_bench.report.charts.sweep import Measure
from ope_bench.report.content import ReportData, Setting
from ope_bench.report.figures.captions import CAPTIONS, caption
from ope_bench.report.figures.file_names import FigureSubject
from ope_bench.report.figures.placement import Frame, line_ends, point_names
from ope_bench.report.figures.print_style import LETTER, POINT, STROKE, WIDTHS
from ope_bench.report.sweeps import Sweep, sweeps

__all__ = ["KINDS", "MOST_LINES", "MOST_SETTINGS", "MOST_SWEEPS", "Figure", "Size", "figures"]

KINDS = tuple(CAPTIONS)
"""Kinds of figures, as they are asked for."""

Size = Literal["single", "double"]

MOST_SETTINGS = 12
"""Most settings with figures of their own."""

MOST_SWEEPS = 12
TALL = 165
"""Points of a chart of lines or points, its legend not counted."""

MOST_LINES = 20
"""Most estimators in a chart of lines or points; the best are shown."""

BELOW, BESIDE = 30.0, 36.0
"""Points that a horizontal and a vertical axis take, with labels and title."""

Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure.

    Parameters
    ----------
    kind : one of `KINDS`.
    subject : for its file's name.
    chart : the chart, sized.
    data : its tables, by name.
    caption : text to print below it.
    symbol : width and height of a legend's symbol; None without a legend.
    """

    kind: str
    subject: FigureSubject
    chart: Any
    data: Mapping[str, Sequence[Line]]
    caption: str
    symbol: tuple[int, int] | None = None


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
    maker = _Maker(content, short, WIDTHS[size])
    if "sweep" in kinds:
        for sweep in sweeps(content.settings)[:MOST_SWEEPS]:
            yield from maker.of_sweep(sweep)
    if "positivity" in kinds:
        yield from maker.positivity()
    if "coverage" in kinds:
        yield from maker.coverage()
    if "ranks" in kinds and len(short) == len(content.methods):
        yield from maker.ranks()
    for setting in content.settings[:MOST_SETTINGS]:
        yield from maker.of_setting(setting, kinds)


@dataclass(frozen=True)
class _Maker:
    content: ReportData
    short: Mapping[str, str]
    width: int

    def _filter_shown(self, table: Sequence[Line]) -> list[Line]:
        """Return the rows of shown estimators, with short labels."""
        return [
            {
                name: self.short[value] if name in ("method", "estimator") else value
                for name, value in line.items()
            }
            for line in table
            if line["method"] in self.short
        ]

    def of_sweep(self, sweep: Sweep) -> Iterator[Figure]:
        table = self._filter_shown(tables.sweep_table(self.content, sweep))
        lines = [line for line in table if line["rmse"]]
        limits = limits_of(line["rmse"] for line in lines)
        if limits is None:
            return
        best = _best(lines)
        kept = [line for line in lines if line["method"] in best]
        limits = limits_of(line["rmse"] for line in kept) or limits
        at = sorted({value for value, _ in sweep.at})
        boards = [self.content.settings[index].board for _, index in sweep.at]
        identity = canonical_json([self.content.settings[index].label for _, index in sweep.at])
        measures: tuple[Measure, ...] = ("rmse", "log10_rmse")
        for measure in measures:
            chart = charts.sweep(
                sweep.parameter,
                measure,
                logarithmic=at[0] > 0,
                at=at if len(at) <= 8 else None,
                limits=limits,
                labels=True,
            )
            frame = _frame(limits, TALL - BELOW)
            scale = math.log10 if measure == "rmse" else float
            yield Figure(
                kind="sweep",
                subject=FigureSubject(f"sweep-{measure.replace('_', '-')}", sweep.title, identity),
                chart=self._fitted(chart, TALL, of=len({line["method"] for line in lines})),
                data={"table": kept, "ends": line_ends(kept, measure, frame, scale)},
                caption=caption("sweep", sweep.title, boards, cut=limits.cut),
            )

    def positivity(self) -> Iterator[Figure]:
        content = self.content
        for environment in dict.fromkeys(one.board.environment for one in content.settings):
            settings = [one for one in content.settings if one.board.environment == environment]
            table = [
                line | {"setting": line["setting"].removeprefix(f"{environment} ")}
                for line in self._filter_shown(tables.setting_table(content, settings))
            ]
            told = ("unsupported_mass", "observed_unsupported_mass")
            mass = any(line[name] is not None for line in table for name in told)
            row = _row_height(len({line["method"] for line in table}))
            yield Figure(
                kind="positivity",
                subject=FigureSubject("positivity", environment, environment),
                chart=charts.positivity(mass=mass, cell=26, row=row),
                data={"table": table},
                caption=caption("positivity", environment, [one.board for one in settings]),
            )

    def coverage(self) -> Iterator[Figure]:
        content = self.content
        for environment in dict.fromkeys(one.board.environment for one in content.settings):
            settings = [one for one in content.settings if one.board.environment == environment]
            table = self._filter_shown(tables.setting_table(content, settings))
            kept = [line for line in table if line["median_interval_width"]]
            widths = [line["median_interval_width"] for line in kept]
            if kept:
                limits = Limits(min(widths), max(widths))
                yield Figure(
                    kind="coverage",
                    subject=FigureSubject("coverage", environment, environment),
                    chart=self._fitted(charts.coverage(widths=limits), TALL),
                    data={"table": kept},
                    caption=caption("coverage", environment, [one.board for one in settings]),
                    symbol=POINT,
                )

    def ranks(self) -> Iterator[Figure]:
        for title, summary in self.content.across:
            labels = [self.short[label] for label in self.content.labels_of(summary)]
            parts = tables.rank_tables(labels, summary)
            if parts["methods"]:
                levels = len(parts["bars"]) + (len(parts["methods"]) + 1) // 2
                longest = max(len(line["method"]) for line in parts["methods"])
                room = 12 + round(LETTER * (longest + 6))
                yield Figure(
                    kind="ranks",
                    subject=FigureSubject("ranks", title, title),
                    chart=self._fitted(
                        charts.ranks(room), 36 + 10 * levels, width=WIDTHS["double"]
                    ),
                    data=parts,
                    caption=caption("ranks", title, []),
                )

    def of_setting(self, setting: Setting, kinds: Sequence[str]) -> Iterator[Figure]:
        content = self.content
        board = self._filter_shown(tables.board_table(content, setting))
        known = [line for line in board if line["rmse"]]
        limits = limits_of(line["rmse"] for line in known)
        if limits is None:
            return
        rows = 30 + _row_height(len(board)) * max(len(board), 3)
        if "intervals" in kinds:
            shaped = self._fitted(charts.intervals(limits=limits), rows)
            yield self._figure("intervals", setting, shaped, {"table": known}, cut=limits.cut)
        if "errors" in kinds:
            errors = self._filter_shown(tables.error_table(content, setting))
            unit = _quantile([line["median_absolute_error"] for line in known], 0.5) or 1.0
            most = 10 * _quantile([abs(line["error"]) for line in errors], 0.9)
            most = min(most, max(abs(line["error"]) for line in errors)) or unit
            shaped = self._fitted(charts.errors(unit, most=most), rows)
            yield self._figure("errors", setting, shaped, {"table": errors})
        if "cdf" in kinds:
            best = _best(known)
            steps = self._filter_shown(tables.cdf_table(content, setting))
            steps = [line for line in steps if line["method"] in best]
            least = min(line["rmse"] for line in known)
            squares = Limits(least**2 / 1000, limits.domain[1] ** 2)
            shaped = self._fitted(charts.cdf(limits=squares), TALL, of=len(known))
            yield self._figure("cdf", setting, shaped, {"table": steps}, symbol=STROKE)
        timed = [line for line in known if line["seconds"]]
        seconds = limits_of(line["seconds"] for line in timed)
        if seconds is None:
            return
        if "pareto" in kinds:
            yield self._pareto(setting, timed)
        if "times" in kinds:
            names = [line | {"estimator": line["method"]} for line in timed]
            spent = [line[part] for line in timed for part in ("fit_seconds", "estimate_seconds")]
            ends = limits_of(spent) or seconds
            all_of = Limits(ends.low, max(filter(None, spent), default=ends.high))
            shaped = self._fitted(charts.times(seconds=all_of), rows + 20)
            yield self._figure("times", setting, shaped, {"table": names}, symbol=POINT)

    def _pareto(self, setting: Setting, timed: Sequence[Line]) -> Figure:
        best = _best(timed)
        kept = [line for line in timed if line["method"] in best]
        limits = limits_of(line["rmse"] for line in kept) or Limits(0.1, 1.0)
        times = [line["seconds"] for line in kept]
        seconds = Limits(min(times), max(times))
        across = _frame(seconds, self.width - BESIDE)
        up = _frame(limits, TALL - BELOW)
        inside = [line for line in kept if line["rmse"] <= limits.domain[1]]
        names = point_names(inside, across, up, LETTER)
        chart = charts.pareto(limits=limits, seconds=seconds, labels=True)
        shaped = self._fitted(chart, TALL, of=len(timed))
        data = {"table": kept, "names": names}
        return self._figure("pareto", setting, shaped, data, cut=limits.cut)

    def _figure(
        self,
        kind: str,
        setting: Setting,
        chart: Any,
        data: Mapping[str, Sequence[Line]],
        *,
        cut: bool = False,
        symbol: tuple[int, int] | None = None,
    ) -> Figure:
        return Figure(
            kind=kind,
            subject=FigureSubject(kind, setting.label, _identity(setting.board)),
            chart=chart,
            data=data,
            caption=caption(kind, setting.label, [setting.board], cut=cut),
            symbol=symbol,
        )

    def _fitted(self, chart: Any, height: int, *, width: int | None = None, of: int = 0) -> Any:
        """Fit chart, axes and legend into a size.

        Parameters
        ----------
        of : number of all estimators, of which a chart of lines shows the best.
        """
        import altair as alt

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


def _frame(limits: Limits, length: float) -> Frame:
    """Return the drawn part of a logarithmic axis."""
    low, high = map(math.log10, limits.domain)
    return Frame(low, high, length)


def _identity(board: Board) -> str:
    return canonical_json(
        [
            board.environment,
            board.environment_params,
            board.worlds,
            board.environment_version,
            board.truth,
        ]
    )


def _row_height(rows: int) -> int:
    """Return the height of a row in points, so that seventy rows fit on a page."""
    return 11 if rows <= 45 else 8


def _quantile(values: Sequence[float], share: float) -> float:
    known = sorted(values)
    return known[min(int(share * len(known)), len(known) - 1)] if known else 0.0


def _best(lines: Sequence[Line]) -> list[str]:
    """Return the estimators with the smallest RMSE over all lines, as many as a chart can show."""
    sizes: dict[str, list[float]] = {}
    for line in lines:
        sizes.setdefault(line["method"], []).append(line["log10_rmse"])
    return sorted(sizes, key=lambda method: sum(sizes[method]) / len(sizes[method]))[:MOST_LINES]
