"""Chart of the coverage of estimators' intervals against their width."""

from __future__ import annotations

from ope_bench.report.charts.axes import Limits, log_axis, log_scale
from ope_bench.report.charts.encodings import (
    Chart,
    color,
    named_table,
    opacity_when,
    picked_method,
    shape,
    tooltip,
)
from ope_bench.statistics.coverage import LEVEL

__all__ = ["coverage"]


def coverage(*, widths: Limits | None = None) -> Chart:
    """Chart coverage, with its interval, against median width; a line at what intervals claim.

    Of the points on the line or above it, the one furthest to the left is best.

    Parameters
    ----------
    widths : ends of the axis of widths.
    """
    import altair as alt

    picked = picked_method()
    base = alt.Chart(named_table()).transform_filter(
        "isValid(datum.coverage) && datum.median_interval_width > 0"
    )
    x = alt.X(
        "median_interval_width:Q",
        title="median width of the intervals",
        scale=log_scale(limits=widths),
        axis=log_axis(limits=widths),
    )
    share = alt.Scale(domain=[0, 1])
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
        opacity=opacity_when(picked, 0.5),
    )
    points = (
        base.mark_point(filled=True)
        .encode(
            x=x,
            y=y,
            color=color(),
            shape=shape(),
            opacity=opacity_when(picked, 1),
            tooltip=tooltip(
                "method:N",
                "setting:N",
                "interval_kind:N",
                "coverage:Q",
                "median_interval_width:Q",
                "interval_score:Q",
                "intervals:Q",
            ),
        )
        .add_params(picked)
    )
    # The legend of the points is the shown one.
    return (claim + bars + points).resolve_legend(color="independent", shape="independent")
