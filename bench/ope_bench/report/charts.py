"""Charts: one definition for the page and for figures in files.

A chart names its data (``table``) and contains none, so that the page can provide filtered rows.
Sizes, fonts and the style of each estimator are set by the page or the writer of figures.

===========  ==================================================================
intervals    one setting's rows: RMSE with intervals
errors       single errors of one setting
cdf          the distribution of squared error
pareto       error against time
times        time by device
coverage     coverage of intervals against their width
positivity   failures by setting, and support of the logs
ranks        a critical-difference diagram
sweep        RMSE against a parameter
===========  ==================================================================

Importing this module imports Altair, which takes a quarter of a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import altair as alt

from ope_bench.report import chart_parts as part
from ope_bench.report.chart_parts import (
    AxisLimits,
    Chart,
    color,
    log_encoding,
    named_table,
    tooltip,
)
from ope_bench.statistics.coverage import LEVEL

_FAILED = "datum.failure_rate > 0"
"""Rows whose points are hollow, in every chart of errors."""


def intervals(*, limits: AxisLimits | None = None) -> Chart:
    """Chart RMSE and interval of one board's rows, best score first.

    A hollow point is a row with failed trials, a dashed bar one that is heavy-tailed.

    Parameters
    ----------
    limits : ends of the axis; arrows stand for what lies beyond.
    """
    best_first = alt.EncodingSortField("score", op="min", order="ascending")
    base = (
        alt.Chart(named_table())
        .transform_filter("isValid(datum.rmse)")
        .encode(y=_rows(best_first), color=color(legend=False))
    )
    x = log_encoding(alt.X, "rmse", "RMSE", limits)
    inside = "true" if limits is None else f"datum.rmse <= {limits.domain[1]!r}"
    bars = (
        base.mark_rule(clip=True)
        .encode(
            x=alt.X("rmse_low:Q", title="RMSE"),
            x2="rmse_high:Q",
            strokeDash=alt.condition("datum.heavy_tailed", alt.value([3, 2]), alt.value([1, 0])),
        )
        .transform_filter("isValid(datum.rmse_low)")
    )
    median = (
        base.mark_tick(opacity=0.8, clip=True)
        .encode(x="median_absolute_error:Q", tooltip=tooltip("method:N median_absolute_error:Q"))
        .transform_filter("datum.median_absolute_error > 0")
    )
    points = (
        base.transform_filter(inside)
        .mark_point(filled=True, opacity=1)
        .encode(
            x=x,
            tooltip=tooltip(
                "method:N rmse:Q rmse_low:Q rmse_high:Q median_absolute_error:Q score:Q "
                "failure_rate:Q"
            ),
        )
    )
    plain = alt.Chart(named_table()).encode(x=x, y=_rows(best_first)).transform_filter(inside)
    hollow = part.hollow_points(plain.transform_filter(_FAILED))
    parts = bars + median + points + hollow
    if limits is not None and limits.cut:
        # The colors of `base` have no legend, as those of the arrows.
        parts += part.arrows(base, "rmse", limits, "right")
    return parts


def errors(unit: float = 1.0, *, most: float | None = None) -> Chart:
    """Chart every error of one setting, estimate minus truth.

    Parameters
    ----------
    unit : limit between the linear and the logarithmic part of the axis.
    most : largest error that the axis shows, on both sides; larger ones stand at its ends.
    """
    rows = alt.Chart(named_table())
    scale: Any = alt.Scale(type="symlog", constant=unit)
    axis: Any = alt.Axis(format="~g", tickCount=5, labelOverlap=True)
    if most is not None:
        end = f"{most!r}"
        scale = alt.Scale(type="symlog", constant=unit, domain=[-most, most])
        axis = part.symlog_axis(unit, most)
        rows = rows.transform_calculate(error=f"clamp(datum.error, -{end}, {end})")
    x = alt.X("error:Q", title="estimate minus truth", scale=scale, axis=axis)
    points = rows.mark_tick(opacity=0.45).encode(
        x=x,
        y=_rows(None),
        color=color(legend=False),
        tooltip=tooltip("method:N replicate:Q error:Q"),
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"error": 0}]))
        .mark_rule(color="#888", strokeWidth=1)
        .encode(x=x)
    )
    return zero + points


def _rows(sort: Any) -> Any:
    return alt.Y("method:N", sort=sort, title=None, axis=alt.Axis(labelLimit=220))


def cdf(*, limits: AxisLimits | None = None) -> Chart:
    """Chart the distribution function of squared error; failures keep a curve below 1.

    Parameters
    ----------
    limits : ends of the axis.
    """
    picked = part.picked_method()
    return (
        alt.Chart(named_table())
        .transform_filter("datum.squared_error > 0")
        .mark_line(interpolate="step-after", clip=limits is not None)
        .encode(
            x=alt.X(
                "squared_error:Q",
                title="squared error",
                scale=part.log_scale(limits=limits) if limits else alt.Scale(type="log"),
                axis=part.log_axis(limits=limits, tickCount=6),
            ),
            y=alt.Y(
                "share:Q",
                title="share of trials",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            color=color(),
            strokeDash=part.dash(),
            opacity=part.opacity_when(picked, 1),
            tooltip=tooltip("method:N squared_error:Q share:Q"),
        )
        .add_params(picked)
    )


def pareto(
    *, limits: AxisLimits | None = None, seconds: AxisLimits | None = None, labels: bool = False
) -> Chart:
    """Chart RMSE against seconds on one setting; a line joins the Pareto-optimal points.

    A hollow point is a row with failed trials.

    Parameters
    ----------
    limits, seconds : ends of the axes of RMSE, above which arrows stand, and of seconds.
    labels : whether points have names, from the table ``names``, instead of a legend.
    """
    picked = part.picked_method()
    base = alt.Chart(named_table()).transform_filter("datum.seconds > 0 && datum.rmse > 0")

    def across(field: str) -> Any:
        return log_encoding(alt.X, field, "median time of fit and estimate", seconds, unit="s")

    def up(field: str) -> Any:
        return log_encoding(alt.Y, field, "RMSE", limits)

    x, y = across("seconds"), up("rmse")
    if limits is not None:
        inside = base.transform_filter(f"datum.rmse <= {limits.domain[1]!r}")
    else:
        inside = base
    front = (
        inside.transform_window(
            best="min(rmse)", frame=[None, 0], sort=[{"field": "seconds"}, {"field": "rmse"}]
        )
        .transform_filter("datum.rmse <= datum.best")
        .mark_line(interpolate="step-after", strokeDash=[4, 3], strokeWidth=1, color="#888")
        .encode(x=x, y=y, order=alt.Order("seconds:Q"))
    )
    points = (
        inside.mark_point(filled=True)
        .encode(
            x=x,
            y=y,
            color=color(legend=not labels),
            shape=part.shape(legend=not labels),
            opacity=part.opacity_when(picked, 1),
            tooltip=tooltip("method:N device:N seconds:Q rmse:Q"),
        )
        .add_params(picked)
    )
    failed = inside.encode(x=x, y=y).transform_filter(_FAILED)
    parts = front + points + part.hollow_points(failed, part.shape(legend=not labels), picked)
    if limits is not None and limits.cut:
        parts += part.arrows(base.encode(x=x), "rmse", limits, "up")
    if labels:
        parts += part.point_labels(across("x"), up("y"))
    return parts


def times(*, seconds: AxisLimits | None = None) -> Chart:
    """Chart the seconds of every estimator by device.

    Parameters
    ----------
    seconds : ends of the axis.
    """
    return (
        alt.Chart(named_table())
        .transform_filter("datum.seconds > 0")
        .transform_fold(["fit_seconds", "estimate_seconds"], as_=["part", "spent"])
        .transform_filter("datum.spent > 0")
        .transform_calculate(part="datum.part == 'fit_seconds' ? 'fit' : 'estimate'")
        .mark_point(filled=True, opacity=0.9)
        .encode(
            x=log_encoding(alt.X, "spent", "median time", seconds, unit="s"),
            y=alt.Y(
                "estimator:N",
                title=None,
                sort=alt.EncodingSortField("seconds", op="min"),
                axis=alt.Axis(labelLimit=220, grid=True),
            ),
            color=alt.Color("device:N", title="device"),
            shape=alt.Shape("part:N", title="part"),
            tooltip=tooltip("method:N device:N part:N spent:Q"),
        )
    )


def coverage(*, widths: AxisLimits | None = None) -> Chart:
    """Chart coverage, with its interval, against median width; a line at what intervals claim.

    Of the points on the line or above it, the one furthest to the left is best.

    Parameters
    ----------
    widths : ends of the axis of widths.
    """
    picked = part.picked_method()
    base = alt.Chart(named_table()).transform_filter(
        "isValid(datum.coverage) && datum.median_interval_width > 0"
    )
    title = "median width of the intervals"
    x = log_encoding(alt.X, "median_interval_width", title, widths)
    share = alt.Scale(zero=False, domainMax=1)
    y = alt.Y("coverage:Q", title="coverage", scale=share, axis=alt.Axis(format="%"))
    # Data of its own would be lost where the tables are filled in.
    claim = (
        alt.Chart(named_table())
        .transform_aggregate(rows="count()")
        .mark_rule(color="#888", strokeWidth=1, strokeDash=[4, 3])
        .encode(y=alt.YDatum(LEVEL))
    )
    bars = base.mark_rule(strokeWidth=1).encode(
        x=x,
        y=alt.Y("coverage_low:Q", title="coverage", scale=share),
        y2="coverage_high:Q",
        color=color(legend=False),
        opacity=part.opacity_when(picked, 0.5),
    )
    points = (
        base.mark_point(filled=True)
        .encode(
            x=x,
            y=y,
            color=color(),
            shape=part.shape(),
            opacity=part.opacity_when(picked, 1),
            tooltip=tooltip(
                "method:N setting:N interval_kind:N coverage:Q median_interval_width:Q "
                "interval_score:Q intervals:Q"
            ),
        )
        .add_params(picked)
    )
    # The legend of the points is the shown one.
    return (claim + bars + points).resolve_legend(color="independent", shape="independent")


def positivity(*, mass: bool = True, cell: int = 38, row: int = 17) -> Chart:
    """Chart failure rates of estimators by setting and, below, the target's unsupported mass.

    Parameters
    ----------
    mass : draw the lower part, which needs environments with known support.
    cell, row : width and height of a cell.
    """
    failures = _map(
        alt.Chart(named_table()).transform_filter("isValid(datum.failure_rate)"),
        "method",
        "failure_rate",
        "trials without an estimate",
        tooltip(
            "method:N setting:N failure_rate:Q positivity_rate:Q unsupported_mass:Q "
            "observed_unsupported_mass:Q replicates:Q"
        ),
        named=not mass,
    )
    size = {"width": alt.Step(cell), "height": alt.Step(row)}
    if not mass:
        return failures.properties(**size)
    support = (
        alt.Chart(named_table())
        .transform_fold(["unsupported_mass", "observed_unsupported_mass"], as_=["which", "mass"])
        .transform_filter("isValid(datum.mass)")
        .transform_aggregate(mass="mean(mass)", groupby=["setting", "which"])
        .transform_calculate(
            which="datum.which == 'unsupported_mass' ? 'by the true policy' : 'never logged'"
        )
    )
    tips = tooltip("setting:N which:N mass:Q")
    below = _map(support, "which", "mass", "target mass without support", tips, named=True)
    return alt.vconcat(failures.properties(**size), below.properties(**size), spacing=10)


def _map(base: Any, rows: str, field: str, title: str, tips: list[Any], *, named: bool) -> Any:
    """Draw shares as shades and text; with ``named``, setting names are below."""
    plain: Any = {"grid": False, "domain": False, "ticks": False}
    below = alt.Axis(labelAngle=-40, labelLimit=180, **plain) if named else None
    placed = base.encode(
        x=alt.X("setting:N", sort=None, title=None, axis=below),
        y=alt.Y(f"{rows}:N", title=None, sort=None, axis=alt.Axis(labelLimit=220, **plain)),
    )
    shade = alt.Scale(domain=[0, 1], range=["#fff7ec", "#fc8d59", "#b30000"])
    cells = placed.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color(f"{field}:Q", title=title, scale=shade, legend=None), tooltip=tips
    )
    # 0 % means exactly none, 100 % exactly all.
    share = (
        f"datum.{field} > 0 && datum.{field} < 0.005 ? '<1%' : "
        f"datum.{field} < 1 && datum.{field} >= 0.995 ? '>99%' : format(datum.{field}, '.0%')"
    )
    words = placed.transform_calculate(words=share)
    words = words.mark_text(style="cell").encode(
        text="words:N",
        color=alt.condition(f"datum.{field} > 0.6", alt.value("white"), alt.value("#222")),
        # Cells without failures have no text.
        opacity=alt.condition(f"datum.{field} > 0", alt.value(1), alt.value(0.7)),
    )
    return (cells + words).properties(title=alt.Title(title, anchor="start", frame="group"))


def ranks(room: int = 120) -> Chart:
    """Chart a critical-difference diagram: bars join estimators without a significant difference.

    Its tables are ``methods``, ``elbows``, ``bars`` and ``axis``.

    Parameters
    ----------
    room : width for the names on each side.
    """
    x = alt.X("x:Q", axis=None, scale=alt.Scale(zero=False, nice=False, padding=room))
    y = alt.Y("level:Q", axis=None, scale=alt.Scale(reverse=True, zero=True, nice=False))
    # The axis is drawn by marks, because a Vega axis would extend below the names.
    ruler = alt.Chart(named_table("axis")).encode(x=x, y=y)
    lines = (
        alt.Chart(named_table("elbows"))
        .mark_line()
        .encode(x=x, y=y, order="step:Q", color=color(legend=False), detail="method:N")
    )
    bars = (
        alt.Chart(named_table("bars"))
        .mark_rule(strokeWidth=3.5, color="#888")
        .encode(x=alt.X("low:Q", axis=None), x2="high:Q", y=y)
    )

    def names(left: bool) -> Any:
        return (
            alt.Chart(named_table("methods"))
            .transform_filter("datum.left" if left else "!datum.left")
            .transform_calculate(words="datum.method + '  ' + format(datum.mean_rank, '.2f')")
            .mark_text(align="right" if left else "left", dx=-4 if left else 4)
            .encode(x=x, y=y, text="words:N", tooltip=tooltip("method:N mean_rank:Q"))
        )

    return (
        ruler.mark_line(strokeWidth=0.8, color="#888")
        + ruler.mark_tick(orient="vertical", size=6, thickness=0.8, color="#888", yOffset=-3)
        + ruler.mark_text(dy=-12).encode(text=alt.Text("x:Q", format="~g"))
        + ruler.transform_filter("datum.first")
        .transform_calculate(title="'mean rank'")
        .mark_text(dy=-24, align="left")
        .encode(text="title:N")
        + lines
        + bars
        + names(left=True)
        + names(left=False)
    )


Measure = Literal["rmse", "log10_rmse"]


def sweep(
    parameter: str = "value",
    measure: Measure = "rmse",
    *,
    logarithmic: bool = True,
    at: Sequence[float] | None = None,
    limits: AxisLimits | None = None,
    labels: bool = False,
) -> Chart:
    """Chart RMSE against a parameter, with bands for the intervals.

    A hollow point is a row with failed trials, which count with the logging average's error; lines
    are dotted there.

    Parameters
    ----------
    parameter : title of the horizontal axis.
    measure : ``log10_rmse`` has a linear axis, as in papers.
    logarithmic : whether the parameter's axis is logarithmic; for positive values only.
    at : ticks of the horizontal axis.
    limits : ends of the RMSE's axis; arrows stand for what lies above.
    labels : whether the lines' ends have labels, from the table ``ends``, instead of a legend.
    """
    picked = part.picked_method()
    ticks: Any = {} if at is None else {"values": list(at)}
    x = alt.X(
        "value:Q",
        title=parameter,
        scale=part.log_scale(12) if logarithmic else alt.Scale(zero=False, nice=False, padding=12),
        axis=alt.Axis(labelExpr=part.SIZE, labelOverlap=True, grid=False, **ticks),
    )
    y = _vertical(measure, measure, limits)
    base = alt.Chart(named_table()).encode(x=x)
    known = f"isValid(datum.{measure})"
    inside = known if limits is None else f"{known} && datum.rmse <= {limits.domain[1]!r}"
    # Each line twice: solid between rows without failures, dotted beside the others.
    solid = f"{_FAILED} ? null : datum.{measure}"
    dotted = f"{_FAILED} || datum.before > 0 || datum.after > 0 ? datum.{measure} : null"
    lines = (
        base.transform_filter(known)
        .transform_window(
            before="lag(failure_rate)",
            after="lead(failure_rate)",
            groupby=["method"],
            sort=[{"field": "value"}],
        )
        .transform_joinaggregate(failed="max(failure_rate)", groupby=["method"])
        .transform_calculate(solid=solid, dotted=dotted)
        .mark_line(clip=limits is not None, invalid="break-paths-show-path-domains")
        .encode(color=color(legend=False), opacity=part.opacity_when(picked, 1))
    )
    line = lines.encode(y=_vertical("solid", measure, limits), strokeDash=part.dash(legend=False))
    line += lines.transform_filter("datum.failed > 0").encode(
        y=_vertical("dotted", measure, limits), strokeDash=alt.value([1, 3])
    )
    point = (
        base.mark_point(filled=True)
        .encode(
            y=y,
            color=color(legend=not labels),
            shape=part.shape(legend=not labels),
            opacity=part.opacity_when(picked, 1),
            tooltip=tooltip(
                f"method:N value:Q {measure}:Q rmse_low:Q rmse_high:Q failure_rate:Q finite:Q"
            ),
        )
        .transform_filter(inside)
        .add_params(picked)
    )
    failed = base.encode(y=y).transform_filter(f"{inside} && {_FAILED}")
    hollow = part.hollow_points(failed, part.shape(legend=False), picked)
    parts = _band(base, picked, measure, limits) + line + point + hollow
    if limits is not None and limits.cut:
        parts += part.arrows(base, "rmse", limits, "up")
    if labels:
        parts += part.line_labels(x, *(_vertical(field, measure, limits) for field in ("y", "at")))
    # The legend of the points is the shown one.
    return parts.resolve_legend(color="independent", shape="independent")


def _vertical(field: str, measure: Measure, limits: AxisLimits | None) -> Any:
    if measure == "rmse":
        return log_encoding(alt.Y, field, "RMSE", limits, padding=8, tickCount=6)
    scale = alt.Scale(zero=False, nice=False, padding=8)
    if limits is not None:
        scale = alt.Scale(zero=False, nice=False, domain=[math.log10(v) for v in limits.domain])
    axis = alt.Axis(format="~g", labelOverlap=True, tickCount=6)
    return alt.Y(f"{field}:Q", title="log10 RMSE", scale=scale, axis=axis)


def _band(base: Any, picked: Any, measure: Measure, limits: AxisLimits | None) -> Any:
    """Draw the intervals; a band breaks where few data sets determine the RMSE."""
    known = "!datum.heavy_tailed && datum.rmse_low > 0"
    shown = "datum.{}" if measure == "rmse" else "log(datum.{}) / LN10"
    ends = {
        end: f"{known} ? {shown.format(f'rmse_{end}')} : null"  # null interrupts the area
        for end in ("low", "high")
    }
    return (
        base.transform_calculate(**ends)
        .mark_area(
            interpolate="linear",
            clip=limits is not None,
            invalid="break-paths-show-path-domains",
            aria=False,  # the points name the same figures
        )
        .encode(
            y=_vertical("low", measure, limits),
            y2="high:Q",
            color=color(legend=False),
            opacity=part.opacity_when(picked, 0.13, 0.02),
        )
    )


CHARTS: dict[str, Callable[[], Chart]] = {
    "intervals": intervals,
    "positivity": positivity,
    "pareto": pareto,
    "times": times,
    "coverage": coverage,
    "cdf": cdf,
    "errors": errors,
    "ranks": ranks,
    "sweep": sweep,
    "sweep_log10": lambda: sweep(measure="log10_rmse"),
    "sweep_linear": lambda: sweep(logarithmic=False),
    "sweep_log10_linear": lambda: sweep(measure="log10_rmse", logarithmic=False),
}
"""The charts of the page, by name."""
