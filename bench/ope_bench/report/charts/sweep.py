"""Chart of RMSE against a parameter of the environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from ope_bench.report.charts.axes import Limits, log_axis, log_scale
from ope_bench.report.charts.encodings import (
    Chart,
    color,
    dash,
    hollow_points,
    named_table,
    opacity_when,
    picked_method,
    shape,
    tooltip,
)
from ope_bench.report.charts.marks import arrows, line_labels

__all__ = ["Measure", "sweep"]

Measure = Literal["rmse", "log10_rmse"]


def sweep(
    parameter: str = "value",
    measure: Measure = "rmse",
    *,
    logarithmic: bool = True,
    at: Sequence[float] | None = None,
    limits: Limits | None = None,
    labels: bool = False,
) -> Chart:
    """Chart RMSE against a parameter, with bands for the intervals.

    A hollow point is a row with failed trials: its RMSE is over the other trials.

    Parameters
    ----------
    parameter : title of the horizontal axis.
    measure : ``log10_rmse`` has a linear axis, as in papers.
    logarithmic : whether the parameter's axis is logarithmic; for positive values only.
    at : ticks of the horizontal axis.
    limits : ends of the RMSE's axis; arrows stand for what lies above.
    labels : whether the lines' ends have labels, from the table ``ends``, instead of a legend.
    """
    import altair as alt

    picked = picked_method()
    ticks: Any = {} if at is None else {"values": list(at)}
    x = alt.X(
        "value:Q",
        title=parameter.replace("_", " "),
        scale=log_scale(12) if logarithmic else alt.Scale(zero=False, nice=False, padding=12),
        axis=alt.Axis(format="~s", labelOverlap=True, grid=False, **ticks),
    )
    y = _vertical(measure, measure, limits)
    base = alt.Chart(named_table()).encode(x=x)
    known = f"isValid(datum.{measure})"
    inside = known if limits is None else f"{known} && datum.rmse <= {limits.domain[1]!r}"
    line = (
        base.mark_line(clip=limits is not None)
        .encode(
            y=y,
            color=color(legend=False),
            strokeDash=dash(legend=False),
            opacity=opacity_when(picked, 1),
        )
        .transform_filter(known)
    )
    point = (
        base.mark_point(filled=True)
        .encode(
            y=y,
            color=color(legend=not labels),
            shape=shape(legend=not labels),
            opacity=opacity_when(picked, 1),
            tooltip=tooltip(
                "method:N",
                "value:Q",
                f"{measure}:Q",
                "rmse_low:Q",
                "rmse_high:Q",
                "failure_rate:Q",
                "finite:Q",
            ),
        )
        .transform_filter(inside)
        .add_params(picked)
    )
    failed = base.encode(y=y).transform_filter(f"{inside} && datum.failure_rate > 0")
    hollow = hollow_points(failed, shape(legend=False), picked)
    parts = _band(base, picked, measure, limits) + line + point + hollow
    if limits is not None and limits.cut:
        parts += arrows(base, "rmse", limits, "up")
    if labels:
        parts += line_labels(x, *(_vertical(field, measure, limits) for field in ("y", "at")))
    # The legend of the points is the shown one.
    return parts.resolve_legend(color="independent", shape="independent")


def _vertical(field: str, measure: Measure, limits: Limits | None) -> Any:
    import altair as alt

    if measure == "rmse":
        return alt.Y(
            f"{field}:Q",
            title="RMSE",
            scale=log_scale(8, limits),
            axis=log_axis(limits=limits, tickCount=6),
        )
    scale = alt.Scale(zero=False, nice=False, padding=8)
    if limits is not None:
        scale = alt.Scale(zero=False, nice=False, domain=[math.log10(v) for v in limits.domain])
    axis = alt.Axis(format="~g", labelOverlap=True, tickCount=6)
    return alt.Y(f"{field}:Q", title="log10 RMSE", scale=scale, axis=axis)


def _band(base: Any, picked: Any, measure: Measure, limits: Limits | None) -> Any:
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
            opacity=opacity_when(picked, 0.13, 0.02),
        )
    )
