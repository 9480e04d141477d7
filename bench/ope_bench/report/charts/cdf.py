"""The distribution of squared error on one setting."""

from __future__ import annotations

from ope_bench.report.charts.axes import Limits, log_axis, log_scale
from ope_bench.report.charts.encodings import (
    Chart,
    color,
    dash,
    named_table,
    opacity_when,
    picked_method,
    tooltip,
)

__all__ = ["cdf"]


def cdf(*, limits: Limits | None = None) -> Chart:
    """Chart the distribution function of squared error; failures keep a curve below 1.

    Parameters
    ----------
    limits : ends of the axis.
    """
    import altair as alt

    picked = picked_method()
    return (
        alt.Chart(named_table())
        .transform_filter("datum.squared_error > 0")
        .mark_line(interpolate="step-after", clip=limits is not None)
        .encode(
            x=alt.X(
                "squared_error:Q",
                title="squared error",
                scale=log_scale(limits=limits) if limits else alt.Scale(type="log"),
                axis=log_axis(limits=limits, tickCount=6),
            ),
            y=alt.Y(
                "share:Q",
                title="share of trials",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            color=color(),
            strokeDash=dash(),
            opacity=opacity_when(picked, 1),
            tooltip=tooltip("method:N", "squared_error:Q", "share:Q"),
        )
        .add_params(picked)
    )
