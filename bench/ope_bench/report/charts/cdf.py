"""The distribution of squared error on one setting."""

from __future__ import annotations

from ope_bench.report.charts.encodings import (
    Chart,
    colour,
    dash,
    faded,
    named_table,
    picked_method,
    tooltip,
)

__all__ = ["cdf"]

LABEL = "format(datum.value, datum.value < 0.001 || datum.value >= 10000 ? '~e' : '~g')"
"""Squares are soon very small."""


def cdf() -> Chart:
    """Distribution function of squared error; a curve that ends below 1 tells of failures."""
    import altair as alt

    picked = picked_method()
    return (
        alt.Chart(named_table())
        .transform_filter("datum.squared_error > 0")
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X(
                "squared_error:Q",
                title="squared error",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(labelExpr=LABEL, labelOverlap=True, tickCount=6),
            ),
            y=alt.Y(
                "share:Q",
                title="share of trials",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            color=colour(),
            strokeDash=dash(),
            opacity=faded(picked, 1),
            tooltip=tooltip("method:N", "squared_error:Q", "share:Q"),
        )
        .add_params(picked)
    )
