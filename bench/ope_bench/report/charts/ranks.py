"""Chart of mean ranks over settings."""

from __future__ import annotations

from typing import Any

from ope_bench.report.charts.encodings import Chart, color, named_table, tooltip

__all__ = ["ranks"]


def ranks(room: int = 120) -> Chart:
    """Chart a critical-difference diagram: bars join estimators without a significant difference.

    Its tables are ``methods``, ``elbows``, ``bars`` and ``axis``.

    Parameters
    ----------
    room : width for the names on each side.
    """
    import altair as alt

    x = alt.X("x:Q", axis=None, scale=alt.Scale(zero=False, nice=False, padding=room))
    y = alt.Y("level:Q", axis=None, scale=alt.Scale(reverse=True, zero=True, nice=False))
    # The axis is drawn by marks, because a Vega axis would extend below the names.
    ruler = alt.Chart(named_table("axis")).encode(x=x, y=y)
    lines = (
        alt.Chart(named_table("elbows"))
        .mark_line()
        .encode(x=x, y=y, order="step:Q", color=color(legend=False), detail="method:N")
    )
    bars = (
        alt.Chart(named_table("bars"))
        .mark_rule(strokeWidth=3.5, color="#888")
        .encode(x=alt.X("low:Q", axis=None), x2="high:Q", y=y)
    )

    def names(left: bool) -> Any:
        return (
            alt.Chart(named_table("methods"))
            .transform_filter("datum.left" if left else "!datum.left")
            .transform_calculate(words="datum.method + '  ' + format(datum.mean_rank, '.2f')")
            .mark_text(align="right" if left else "left", dx=-4 if left else 4)
            .encode(x=x, y=y, text="words:N", tooltip=tooltip("method:N", "mean_rank:Q"))
        )

    return (
        ruler.mark_line(strokeWidth=0.8, color="#888")
        + ruler.mark_tick(orient="vertical", size=6, thickness=0.8, color="#888", yOffset=-3)
        + ruler.mark_text(dy=-12).encode(text=alt.Text("x:Q", format="~g"))
        + ruler.transform_filter("datum.first")
        .transform_calculate(title="'mean rank'")
        .mark_text(dy=-24, align="left")
        .encode(text="title:N")
        + lines
        + bars
        + names(left=True)
        + names(left=False)
    )
