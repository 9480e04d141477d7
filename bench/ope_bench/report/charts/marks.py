"""Marks that several charts share: arrows for what an axis cuts, names beside lines and points."""

from __future__ import annotations

from typing import Any, Literal

from ope_bench.report.charts.axes import Limits
from ope_bench.report.charts.encodings import HOLLOW, color, named_table, tooltip

__all__ = ["arrows", "line_labels", "point_labels"]

ARROWS = {"up": "\N{UPWARDS ARROW}", "right": "\N{RIGHTWARDS ARROW}"}


def at_right(channel: Literal["x", "x2"]) -> Any:
    """Return the right edge of the chart as an encoding."""
    import altair as alt

    edge: Any = alt.XValue if channel == "x" else alt.X2Value
    return edge("width")


def arrows(base: Any, field: str, limits: Limits, direction: Literal["up", "right"]) -> Any:
    """Draw an arrow at the end of the axis, with the value, for each row beyond it.

    Parameters
    ----------
    base : chart of the rows, encoded along the other axis.
    field : the value that the axis shows.
    limits : ends of the axis.
    direction : where the axis ends.
    """
    import altair as alt

    sign = ARROWS[direction]
    beyond = base.transform_filter(f"datum.{field} > {limits.domain[1]!r}")
    words = f"'{sign} ' + replace(format(datum.{field}, '.0e'), '+', '')"
    beyond = beyond.transform_calculate(beyond=words)
    tips = tooltip("method:N", f"{field}:Q")
    if direction == "up":
        # Several at one place stand below each other.
        placed = beyond.transform_window(
            place="row_number()", groupby=["value"], sort=[{"field": field, "order": "descending"}]
        ).transform_calculate(top="9 * datum.place - 4")
        mark = placed.mark_text(align="center", style="cell")
        at: Any = {"y": alt.Y("top:Q", scale=None, axis=None)}
    else:
        mark = beyond.mark_text(align="right", style="cell")
        at = {"x": at_right("x")}
    return mark.encode(text="beyond:N", color=color(legend=False), tooltip=tips, **at)


def line_labels(x: Any, y: Any, at: Any) -> Any:
    """Name the lines at the right edge, from the table ``ends``.

    A line of the table has the ``method``, the end of its line (``value``, ``y``) and the height
    of its name (``at``), which a thin line joins.

    Parameters
    ----------
    x, y, at : the chart's encodings, of the fields ``value``, ``y`` and ``at``.
    """
    import altair as alt

    ends = alt.Chart(named_table("ends"))
    leaders = ends.mark_rule(strokeWidth=0.4, opacity=0.6).encode(
        x=x, x2=at_right("x2"), y=y, y2="at:Q", color=color(legend=False)
    )
    names = ends.mark_text(align="left", dx=3).encode(
        x=at_right("x"),
        y=at,
        text="method:N",
        color=color(legend=False),
    )
    return leaders + names


def point_labels(x: Any, y: Any) -> Any:
    """Name points, from the table ``names``: ``method``, ``x``, ``y`` and ``left`` of the point.

    Parameters
    ----------
    x, y : the chart's encodings of the fields of these names.
    """
    import altair as alt

    names = alt.Chart(named_table("names"))

    def side(left: bool) -> Any:
        words = (
            names.transform_filter("datum.left" if left else "!datum.left")
            .mark_text(align="right" if left else "left", dx=-4 if left else 4)
            .encode(x=x, y=y, text="method:N")
        )
        # Lines under a name would make it hard to read.
        halo = words.encode(stroke=alt.value(HOLLOW), strokeWidth=alt.value(3))
        return halo + words.encode(color=color(legend=False))

    return side(left=True) + side(left=False)
