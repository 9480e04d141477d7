"""Charts of the page, as Vega-Lite specifications without data or colors of a theme."""

from __future__ import annotations

from ope_bench.logs.charts.values import BLUE, ORANGE
from ope_bench.report.charts.axes import log_scale
from ope_bench.report.charts.encodings import Chart, named_table, tooltip

__all__ = ["evidence_chart", "reliability_chart", "weights_chart"]


def weights_chart() -> Chart:
    """Chart the weights' histogram: shares of the rows, and of the weight, by size of weight."""
    import altair as alt

    return (
        alt.Chart(named_table())
        .mark_bar(opacity=0.55)
        .encode(
            x=alt.X("low:Q", title="importance weight", scale=log_scale(4)),
            x2="high:Q",
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%"), stack=None),
            y2=alt.datum(0),
            color=alt.Color(
                "of:N",
                title="share of",
                scale=alt.Scale(domain=["rows", "weight"], range=[BLUE, ORANGE]),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=tooltip("of:N", "low:Q", "high:Q", "share:Q"),
        )
    )


def reliability_chart() -> Chart:
    """Chart the mean of 1{a}/p by action, in expectation one."""
    import altair as alt

    y = alt.Y("action:N", sort=None, title=None, axis=alt.Axis(labelLimit=160))
    x = alt.X("mean:Q", title="mean of 1/p over the action's rows", scale=alt.Scale(zero=False))
    base = alt.Chart(named_table()).encode(y=y, tooltip=tooltip("action:N", "mean:Q"))
    bars = base.mark_rule(color=BLUE).encode(x=alt.X("low:Q", title=None), x2="high:Q")
    points = base.mark_point(filled=True, opacity=1, color=BLUE).encode(x=x)
    one = alt.Chart(alt.InlineData(values=[{"mean": 1.0}]))
    return one.mark_rule(strokeDash=[4, 3], color="#888").encode(x="mean:Q") + bars + points


def evidence_chart() -> Chart:
    """Chart the candidates' errors on each made world."""
    import altair as alt

    return (
        alt.Chart(named_table())
        .mark_point(filled=True, opacity=0.9)
        .encode(
            y=alt.Y("world:N", sort=None, title=None, axis=alt.Axis(labelLimit=160)),
            x=alt.X("rmse:Q", title="RMSE", scale=log_scale(), axis=alt.Axis(format="~g")),
            color=alt.Color("method:N", title="estimator", legend=alt.Legend(orient="top")),
            shape=alt.Shape("method:N", title="estimator"),
            tooltip=tooltip("world:N", "method:N", "rmse:Q"),
        )
    )
