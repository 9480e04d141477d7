"""Values of a policy by several estimators, as a chart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ope_bench.logs.result_rows import EstimateRow
from ope_bench.report.charts.encodings import Chart, named_table, tooltip
from ope_bench.report.requirements import needs_extra

__all__ = ["BLUE", "ORANGE", "plot_values", "value_lines", "values_chart"]

BLUE, ORANGE = "#4c78a8", "#e4772e"
"""Visible on white and on black."""


def plot_values(
    rows: Iterable[EstimateRow], logging_average: float, title: str, chosen: str | None = None
) -> Chart:
    """Return the chart of estimates with its data, for a notebook.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    return values_chart(logging_average, value_lines(rows, chosen)).properties(title=title)


def value_lines(rows: Iterable[EstimateRow], chosen: str | None) -> list[dict[str, Any]]:
    """Return values and intervals of the estimators that have a value."""
    return [
        {
            "estimator": row.label,
            "value": row.value,
            "low": row.low,
            "high": row.high,
            "chosen": row.label == chosen,
        }
        for row in rows
        if row.value is not None
    ]


def values_chart(logging_average: float, data: Any = None) -> Chart:
    """Chart values with intervals, the recommended one marked, and the logged average as a line.

    Parameters
    ----------
    data : lines as of `value_lines`; the page provides them by name where None.
    """
    import altair as alt

    table = named_table() if data is None else alt.InlineData(values=data)
    y = alt.Y("estimator:N", sort=None, title=None, axis=alt.Axis(labelLimit=180))
    x = alt.X("value:Q", title="expected reward a row", scale=alt.Scale(zero=False))
    color = alt.condition("datum.chosen", alt.value(ORANGE), alt.value(BLUE))
    shown = tooltip("estimator:N", "value:Q", "low:Q", "high:Q")
    base = alt.Chart(table).encode(y=y, color=color, tooltip=shown)
    bars = base.mark_rule().encode(x=alt.X("low:Q", title="expected reward a row"), x2="high:Q")
    points = base.mark_point(filled=True, opacity=1).encode(x=x)
    line = alt.Chart(alt.InlineData(values=[{"value": logging_average}]))
    average = line.mark_rule(strokeDash=[4, 3], color="#888").encode(x=x)
    return average + bars.transform_filter("isValid(datum.low)") + points
