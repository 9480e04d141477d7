"""Charts of cost: error against time, and time by device."""

from __future__ import annotations

from typing import Any

from ope_bench.report.charts.axes import Limits, log_axis, log_scale
from ope_bench.report.charts.encodings import (
    Chart,
    color,
    hollow_points,
    named_table,
    opacity_when,
    picked_method,
    shape,
    tooltip,
)
from ope_bench.report.charts.marks import arrows, point_labels

__all__ = ["pareto", "times"]


def pareto(
    *, limits: Limits | None = None, seconds: Limits | None = None, labels: bool = False
) -> Chart:
    """Chart RMSE against seconds on one setting; a line joins the Pareto-optimal points.

    Points are filled for the CPU, hollow for other devices.

    Parameters
    ----------
    limits, seconds : ends of the axes of RMSE, above which arrows stand, and of seconds.
    labels : whether points have names, from the table ``names``, instead of a legend.
    """
    import altair as alt

    picked = picked_method()
    base = alt.Chart(named_table()).transform_filter("datum.seconds > 0 && datum.rmse > 0")

    def across(field: str) -> Any:
        return alt.X(
            f"{field}:Q",
            title="median time of fit and estimate",
            scale=log_scale(limits=seconds),
            axis=log_axis("s", seconds),
        )

    def up(field: str) -> Any:
        axis = log_axis(limits=limits)
        return alt.Y(f"{field}:Q", title="RMSE", scale=log_scale(limits=limits), axis=axis)

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
            shape=shape(legend=not labels),
            opacity=opacity_when(picked, 1),
            tooltip=tooltip("method:N", "device:N", "seconds:Q", "rmse:Q"),
        )
        .add_params(picked)
    )
    elsewhere = inside.encode(x=x, y=y).transform_filter("datum.device != 'cpu'")
    parts = front + points + hollow_points(elsewhere, shape(legend=not labels), picked)
    if limits is not None and limits.cut:
        parts += arrows(base.encode(x=x), "rmse", limits, "up")
    if labels:
        parts += point_labels(across("x"), up("y"))
    return parts


def times(*, seconds: Limits | None = None) -> Chart:
    """Chart the seconds of every estimator by device.

    Parameters
    ----------
    seconds : ends of the axis.
    """
    import altair as alt

    return (
        alt.Chart(named_table())
        .transform_filter("datum.seconds > 0")
        .transform_fold(["fit_seconds", "estimate_seconds"], as_=["part", "spent"])
        .transform_filter("datum.spent > 0")
        .transform_calculate(part="datum.part == 'fit_seconds' ? 'fit' : 'estimate'")
        .mark_point(filled=True, opacity=0.9)
        .encode(
            x=alt.X(
                "spent:Q",
                title="median time",
                scale=log_scale(limits=seconds),
                axis=log_axis("s", seconds),
            ),
            y=alt.Y(
                "estimator:N",
                title=None,
                sort=alt.EncodingSortField("seconds", op="min"),
                axis=alt.Axis(labelLimit=220, grid=True),
            ),
            color=alt.Color("device:N", title="device"),
            shape=alt.Shape("part:N", title="part"),
            tooltip=tooltip("method:N", "device:N", "part:N", "spent:Q"),
        )
    )
