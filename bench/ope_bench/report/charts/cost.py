"""What estimators cost: error against time, and time by device."""

from __future__ import annotations

from ope_bench.report.charts.encodings import (
    Chart,
    colour,
    faded,
    hollowed,
    log_scale,
    named_table,
    picked_method,
    shape,
    tooltip,
)

__all__ = ["pareto", "times"]


def pareto() -> Chart:
    """RMSE against seconds on one setting; a line joins what nothing beats in both.

    Points are filled for the CPU, hollow for other devices.
    """
    import altair as alt

    picked = picked_method()
    base = alt.Chart(named_table()).transform_filter("datum.seconds > 0 && datum.rmse > 0")
    x = alt.X(
        "seconds:Q",
        title="median seconds of fit and estimate",
        scale=log_scale(),
        axis=alt.Axis(format="~g", labelOverlap=True),
    )
    y = alt.Y(
        "rmse:Q",
        title="RMSE",
        scale=log_scale(),
        axis=alt.Axis(format="~g", labelOverlap=True),
    )
    front = (
        base.transform_window(
            best="min(rmse)", frame=[None, 0], sort=[{"field": "seconds"}, {"field": "rmse"}]
        )
        .transform_filter("datum.rmse <= datum.best")
        .mark_line(interpolate="step-after", strokeDash=[4, 3], strokeWidth=1, color="#888")
        .encode(x=x, y=y, order=alt.Order("seconds:Q"))
    )
    points = (
        base.mark_point(filled=True)
        .encode(
            x=x,
            y=y,
            color=colour(),
            shape=shape(),
            opacity=faded(picked, 1),
            tooltip=tooltip("method:N", "device:N", "seconds:Q", "rmse:Q"),
        )
        .add_params(picked)
    )
    elsewhere = base.encode(x=x, y=y).transform_filter("datum.device != 'cpu'")
    return front + points + hollowed(elsewhere, shape(), picked)


def times() -> Chart:
    """Seconds of every estimator, devices side by side."""
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
                title="median seconds",
                scale=log_scale(),
                axis=alt.Axis(format="~g", labelOverlap=True),
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
