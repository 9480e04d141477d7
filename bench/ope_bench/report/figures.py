"""The charts as files for a paper: SVG, PNG and PDF, one column wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ope_bench.report import charts, tables
from ope_bench.report.content import Content, Setting
from ope_bench.report.filenames import Subject, file_names
from ope_bench.report.html import needs_extra
from ope_bench.report.labels import short_labels
from ope_bench.report.paper import LETTER, POINT, STROKE, WIDTH, Legend, config
from ope_bench.report.styles import PAPER, apply, styles_of
from ope_bench.report.sweeps import Sweep, sweeps
from ope_bench.seeding import canonical_json

__all__ = ["FORMATS", "MOST_LINES", "MOST_SETTINGS", "Drawn", "write_figures"]

FORMATS = ("svg", "png", "pdf")
MOST_SETTINGS = 12
"""Settings that get figures of their own."""

MOST_SWEEPS = 12
TALL = 165
"""Points of a chart of lines or points, its legend not counted."""

MOST_LINES = 20
"""Estimators in a chart of lines or points; the best ones."""

Table = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Drawn:
    """What was written.

    Parameters
    ----------
    paths : the files.
    left_out : what got no figure, in one line; None where nothing was left out.
    """

    paths: tuple[Path, ...]
    left_out: str | None = None


@dataclass(frozen=True)
class _Figure:
    subject: Subject
    chart: Any
    data: Mapping[str, Table]
    symbol: tuple[int, int] | None = None


def write_figures(content: Content, folder: Path) -> Drawn:
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
    short = short_labels([method.label for method in content.methods])
    looks = styles_of(list(short.values()), PAPER)
    figures = list(_figures(content))
    written = []
    names = file_names([one.subject for one in figures])
    for stem, figure in zip(names, figures, strict=True):
        data = {name: _brief(table, short) for name, table in figure.data.items()}
        spec = figure.chart.to_dict(validate=False)
        present = {line.get("method") for lines in data.values() for line in lines}
        chosen = {label: style for label, style in looks.items() if label in present}
        apply(spec, chosen, "white")
        below = Legend.of(list(chosen), figure.symbol or POINT)
        if figure.symbol:
            spec["height"] += below.height
        spec |= {"config": config() | below.config(), "datasets": data}
        svg = vl_convert.vegalite_to_svg(spec)
        drawn = {
            "svg": svg.encode(),
            "png": vl_convert.svg_to_png(svg, ppi=300),
            "pdf": vl_convert.svg_to_pdf(svg),
        }
        for form in FORMATS:
            path = folder / f"{stem}.{form}"
            path.write_bytes(drawn[form])
            written.append(path)
    return Drawn(tuple(written), _left_out(content))


def _brief(table: Table, short: Mapping[str, str]) -> list[dict[str, Any]]:
    """The table with short labels."""
    return [
        {
            name: short.get(value, value) if name in ("method", "estimator") else value
            for name, value in line.items()
        }
        for line in table
    ]


def _left_out(content: Content) -> str | None:
    parts = []
    if len(content.settings) > MOST_SETTINGS:
        parts.append(
            f"single settings: the first {MOST_SETTINGS} of {len(content.settings)} drawn"
        )
    if (found := len(sweeps(content.settings))) > MOST_SWEEPS:
        parts.append(f"sweeps: the longest {MOST_SWEEPS} of {found} drawn")
    return f"{'; '.join(parts)}; --suite or --run narrows the choice" if parts else None


def _figures(content: Content) -> Iterator[_Figure]:
    for sweep in sweeps(content.settings)[:MOST_SWEEPS]:
        yield from _of_sweep(content, sweep)
    for environment in dict.fromkeys(one.board.environment for one in content.settings):
        settings = [one for one in content.settings if one.board.environment == environment]
        table = [
            line | {"setting": line["setting"].removeprefix(f"{environment} ")}
            for line in tables.setting_table(content, settings)
        ]
        told = ("unsupported_mass", "observed_unsupported_mass")
        mass = any(line[name] is not None for line in table for name in told)
        row = _row_height(len({line["method"] for line in table}))
        chart = charts.positivity(mass=mass, cell=26, row=row)
        yield _Figure(Subject("positivity", environment, environment), chart, {"table": table})
    for title, summary in content.across:
        parts = tables.rank_tables(content.labels_of(summary), summary)
        if parts["methods"]:
            levels = len(parts["bars"]) + (len(parts["methods"]) + 1) // 2
            longest = max(len(line["method"]) for line in parts["methods"])
            room = 12 + round(LETTER * (longest + 6))
            shaped = _fitted(charts.ranks(room), 36 + 10 * levels, width=2 * WIDTH)
            yield _Figure(Subject("ranks", title, title), shaped, parts)
    for setting in content.settings[:MOST_SETTINGS]:
        yield from _of_setting(content, setting)


def _of_sweep(content: Content, sweep: Sweep) -> Iterator[_Figure]:
    lines = [line for line in tables.sweep_table(content, sweep) if line["rmse"]]
    if not lines:
        return
    best = _best(lines)
    kept = [line for line in lines if line["method"] in best]
    at = sorted({value for value, _ in sweep.at})
    identity = canonical_json([content.settings[index].label for _, index in sweep.at])
    for measure in ("rmse", "log10_rmse"):
        chart = charts.sweep(
            sweep.parameter, measure, logarithmic=at[0] > 0, at=at if len(at) <= 8 else None
        )
        shaped = _fitted(chart, TALL, of=len({line["method"] for line in lines}))
        subject = Subject(f"sweep-{measure.replace('_', '-')}", sweep.title, identity)
        yield _Figure(subject, shaped, {"table": kept}, POINT)


def _of_setting(content: Content, setting: Setting) -> Iterator[_Figure]:
    board = tables.board_table(content, setting)
    known = [line for line in board if line["rmse"]]
    if not known:
        return
    identity = canonical_json(
        [
            setting.board.environment,
            setting.board.environment_params,
            setting.board.worlds,
            setting.board.environment_version,
            setting.board.truth,
        ]
    )

    def figure(kind: str, chart: Any, table: Table, symbol: Any = None) -> _Figure:
        subject = Subject(kind, setting.label, identity)
        return _Figure(subject, chart, {"table": table}, symbol)

    rows = 30 + _row_height(len(board)) * max(len(board), 3)
    yield figure("intervals", _fitted(charts.intervals(), rows), known)
    middle = sorted(line["median_absolute_error"] for line in known)[len(known) // 2]
    errors = tables.error_table(content, setting)
    yield figure("errors", _fitted(charts.errors(middle or 1.0), rows), errors)
    best = _best(known)
    steps = [line for line in tables.cdf_table(content, setting) if line["method"] in best]
    yield figure("cdf", _fitted(charts.cdf(), TALL, of=len(known)), steps, STROKE)
    timed = [line for line in known if line["seconds"]]
    if timed:
        best = _best(timed)
        kept = [line for line in timed if line["method"] in best]
        shaped = _fitted(charts.pareto(), TALL, of=len(timed))
        yield figure("pareto", shaped, kept, POINT)
        names = [line | {"estimator": line["method"]} for line in timed]
        yield figure("times", _fitted(charts.times(), rows + 20), names)


def _row_height(rows: int) -> int:
    """Points, so that even seventy rows stay on a page."""
    return 11 if rows <= 45 else 8


def _best(lines: Table) -> list[str]:
    """The methods with the smallest RMSE, over all lines, as many as a chart can show."""
    sizes: dict[str, list[float]] = {}
    for line in lines:
        sizes.setdefault(line["method"], []).append(line["log10_rmse"])
    return sorted(sizes, key=lambda method: sum(sizes[method]) / len(sizes[method]))[:MOST_LINES]


def _fitted(chart: Any, height: int, *, width: int = WIDTH, of: int = 0) -> Any:
    """The chart with axes and legend inside this size; ``of``: methods that there are."""
    import altair as alt

    note: Any = {}
    if of > MOST_LINES:
        words = f"the {MOST_LINES} best of {of} estimators"
        note = {"title": alt.Title(words, anchor="end", color="#666")}
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    return chart.properties(width=width, height=height, autosize=fit, **note)
