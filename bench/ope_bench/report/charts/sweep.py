"""RMSE against a parameter of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ope_bench.report.charts.encodings import (
    Chart,
    colour,
    dash,
    faded,
    hollowed,
    log_scale,
    named_table,
    picked_method,
    shape,
    tooltip,
)

__all__ = ["sweep"]

Measure = Literal["rmse", "log10_rmse"]


def sweep(
    parameter: str = "value",
    measure: Measure = "rmse",
    *,
    logarithmic: bool = True,
    at: Sequence[float] | None = None,
) -> Chart:
    """RMSE against a parameter, with bands for the intervals.

    A hollow point is a row of which some trials failed: its RMSE is over the others.

    Parameters
    ----------
    parameter : what the horizontal axis is called.
    measure : ``log10_rmse`` has a linear axis, as papers print it.
    logarithmic : the parameter's axis; only for values above 0.
    at : where the horizontal axis has its ticks.
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
    y = _vertical(measure, measure)
    base = alt.Chart(named_table()).encode(x=x)
    known = f"isValid(datum.{measure})"
    line = (
        base.mark_line()
        .encode(
            y=y,
            color=colour(legend=False),
            strokeDash=dash(legend=False),
            opacity=faded(picked, 1),
        )
        .transform_filter(known)
    )
    point = (
        base.mark_point(filled=True)
        .encode(
            y=y,
            color=colour(),
            shape=shape(),
            opacity=faded(picked, 1),
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
        .transform_filter(known)
        .add_params(picked)
    )
    failed = base.encode(y=y).transform_filter(f"{known} && datum.failure_rate > 0")
    inside = hollowed(failed, shape(legend=False), picked)
    parts = _band(base, picked, measure) + line + point + inside
    # The points' legend is the one that is shown.
    return parts.resolve_legend(color="independent", shape="independent")


def _vertical(field: str, measure: Measure) -> Any:
    import altair as alt

    linear = alt.Scale(zero=False, nice=False, padding=8)
    return alt.Y(
        f"{field}:Q",
        title="RMSE" if measure == "rmse" else "log10 RMSE",
        scale=log_scale(8) if measure == "rmse" else linear,
        axis=alt.Axis(format="~g", labelOverlap=True, tickCount=6),
    )


def _band(base: Any, picked: Any, measure: Measure) -> Any:
    low, high = "rmse_low", "rmse_high"
    known = base.transform_filter("datum.rmse_low > 0")
    if measure != "rmse":
        known = known.transform_calculate(
            low="log(datum.rmse_low) / LN10", high="log(datum.rmse_high) / LN10"
        )
        low, high = "low", "high"
    return known.mark_area(interpolate="linear").encode(
        y=_vertical(low, measure),
        y2=f"{high}:Q",
        color=colour(legend=False),
        opacity=faded(picked, 0.13, 0.02),
    )
