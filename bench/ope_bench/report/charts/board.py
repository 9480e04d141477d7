"""The rows of one board: RMSE with intervals, and every single error."""

from __future__ import annotations

from typing import Any

from ope_bench.report.charts.encodings import (
    Chart,
    colour,
    hollowed,
    log_scale,
    named_table,
    tooltip,
)

__all__ = ["errors", "intervals"]


def intervals() -> Chart:
    """One board: RMSE and its interval, best score first; hollow where heavy-tailed."""
    import altair as alt

    best_first = alt.EncodingSortField("score", op="min", order="ascending")
    base = (
        alt.Chart(named_table())
        .transform_filter("isValid(datum.rmse)")
        .encode(y=_rows(best_first), color=colour(legend=False))
    )
    x = alt.X(
        "rmse:Q",
        title="RMSE",
        scale=log_scale(),
        axis=alt.Axis(format="~g", labelOverlap=True),
    )
    bars = (
        base.mark_rule()
        .encode(x=alt.X("rmse_low:Q", title="RMSE"), x2="rmse_high:Q")
        .transform_filter("isValid(datum.rmse_low)")
    )
    median = (
        base.mark_tick(opacity=0.8)
        .encode(
            x="median_absolute_error:Q", tooltip=tooltip("method:N", "median_absolute_error:Q")
        )
        .transform_filter("datum.median_absolute_error > 0")
    )
    points = base.mark_point(filled=True, opacity=1).encode(
        x=x,
        tooltip=tooltip(
            "method:N",
            "rmse:Q",
            "rmse_low:Q",
            "rmse_high:Q",
            "median_absolute_error:Q",
            "score:Q",
            "failure_rate:Q",
        ),
    )
    plain = alt.Chart(named_table()).encode(x=x, y=_rows(best_first))
    return bars + median + points + hollowed(plain.transform_filter("datum.heavy_tailed"))


def errors(unit: float = 1.0) -> Chart:
    """Every error of one setting, estimate minus truth.

    Parameters
    ----------
    unit : up to this size the axis is linear, logarithmic beyond.
    """
    import altair as alt

    x = alt.X(
        "error:Q",
        title="estimate minus truth",
        scale=alt.Scale(type="symlog", constant=unit),
        axis=alt.Axis(format="~g", tickCount=5, labelOverlap=True),
    )
    points = (
        alt.Chart(named_table())
        .mark_tick(opacity=0.45)
        .encode(
            x=x,
            y=_rows(None),
            color=colour(legend=False),
            tooltip=tooltip("method:N", "replicate:Q", "error:Q"),
        )
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"error": 0}]))
        .mark_rule(color="#888", strokeWidth=1)
        .encode(x=x)
    )
    return zero + points


def _rows(sort: Any) -> Any:
    import altair as alt

    return alt.Y("method:N", sort=sort, title=None, axis=alt.Axis(labelLimit=220))
