"""Charts of one board: RMSE with intervals, and single errors."""

from __future__ import annotations

from typing import Any

from ope_bench.report.charts.axes import Limits, log_axis, log_scale, symlog_axis
from ope_bench.report.charts.encodings import (
    Chart,
    color,
    hollow_points,
    named_table,
    tooltip,
)
from ope_bench.report.charts.marks import arrows

__all__ = ["errors", "intervals"]


def intervals(*, limits: Limits | None = None) -> Chart:
    """Chart RMSE and interval of one board's rows, best score first; hollow if heavy-tailed.

    Parameters
    ----------
    limits : ends of the axis; arrows stand for what lies beyond.
    """
    import altair as alt

    best_first = alt.EncodingSortField("score", op="min", order="ascending")
    base = (
        alt.Chart(named_table())
        .transform_filter("isValid(datum.rmse)")
        .encode(y=_rows(best_first), color=color(legend=False))
    )
    x = alt.X(
        "rmse:Q",
        title="RMSE",
        scale=log_scale(limits=limits),
        axis=log_axis(limits=limits),
    )
    inside = "true" if limits is None else f"datum.rmse <= {limits.domain[1]!r}"
    bars = (
        base.mark_rule(clip=True)
        .encode(x=alt.X("rmse_low:Q", title="RMSE"), x2="rmse_high:Q")
        .transform_filter("isValid(datum.rmse_low)")
    )
    median = (
        base.mark_tick(opacity=0.8, clip=True)
        .encode(
            x="median_absolute_error:Q", tooltip=tooltip("method:N", "median_absolute_error:Q")
        )
        .transform_filter("datum.median_absolute_error > 0")
    )
    points = (
        base.transform_filter(inside)
        .mark_point(filled=True, opacity=1)
        .encode(
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
    )
    plain = alt.Chart(named_table()).encode(x=x, y=_rows(best_first)).transform_filter(inside)
    hollow = hollow_points(plain.transform_filter("datum.heavy_tailed"))
    parts = bars + median + points + hollow
    if limits is not None and limits.cut:
        # The colors of `base` have no legend, as those of the arrows.
        parts += arrows(base, "rmse", limits, "right")
    return parts


def errors(unit: float = 1.0, *, most: float | None = None) -> Chart:
    """Chart every error of one setting, estimate minus truth.

    Parameters
    ----------
    unit : limit between the linear and the logarithmic part of the axis.
    most : largest error that the axis shows, on both sides; larger ones stand at its ends.
    """
    import altair as alt

    x = alt.X(
        "error:Q",
        title="estimate minus truth",
        scale=_symlog(unit, most),
        axis=_symlog_axis(unit, most),
    )
    rows = alt.Chart(named_table())
    if most is not None:
        end = f"{most!r}"
        rows = rows.transform_calculate(error=f"clamp(datum.error, -{end}, {end})")
    points = rows.mark_tick(opacity=0.45).encode(
        x=x,
        y=_rows(None),
        color=color(legend=False),
        tooltip=tooltip("method:N", "replicate:Q", "error:Q"),
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"error": 0}]))
        .mark_rule(color="#888", strokeWidth=1)
        .encode(x=x)
    )
    return zero + points


def _symlog(unit: float, most: float | None) -> Any:
    import altair as alt

    ends: Any = {} if most is None else {"domain": [-most, most]}
    return alt.Scale(type="symlog", constant=unit, **ends)


def _symlog_axis(unit: float, most: float | None) -> Any:
    import altair as alt

    if most is None:
        return alt.Axis(format="~g", tickCount=5, labelOverlap=True)
    return symlog_axis(unit, most)


def _rows(sort: Any) -> Any:
    import altair as alt

    return alt.Y("method:N", sort=sort, title=None, axis=alt.Axis(labelLimit=220))
