"""Common parts of charts: color, dash and shape of estimators, tooltips, data by name."""

from __future__ import annotations

from typing import Any

__all__ = [
    "HOLLOW",
    "Chart",
    "Encoding",
    "color",
    "dash",
    "opacity_when",
    "hollow_points",
    "named_table",
    "picked_method",
    "shape",
    "tooltip",
]

Chart = Any
"""An Altair chart; Altair is imported when a chart is made."""

Encoding = Any

HOLLOW = "paper"
"""Placeholder of the background color."""


def named_table(name: str = "table") -> Any:
    """Return a reference to data that are provided when the chart is shown."""
    import altair as alt

    return alt.NamedData(name)


TITLE = "estimator"
"""Title of the legend."""


def _legend(**facts: Any) -> Any:
    """Return one legend for all channels, so that Vega merges them."""
    import altair as alt

    return alt.Legend(symbolLimit=0, symbolOpacity=1, **facts)


def color(*, legend: bool = True) -> Encoding:
    """Encode an estimator's color."""
    import altair as alt

    return alt.Color("method:N", title=TITLE, legend=_legend() if legend else None)


def dash(*, legend: bool = True) -> Encoding:
    """Encode an estimator's line pattern."""
    import altair as alt

    # Long enough to show the pattern.
    shown = _legend(symbolSize=260) if legend else None
    return alt.StrokeDash("method:N", title=TITLE, legend=shown)


def shape(*, legend: bool = True) -> Encoding:
    """Encode an estimator's point shape."""
    import altair as alt

    return alt.Shape("method:N", title=TITLE, legend=_legend() if legend else None)


def picked_method() -> Any:
    """Return a selection of an estimator by a click in the legend."""
    import altair as alt

    return alt.selection_point(fields=["method"], bind="legend", name="picked")


def opacity_when(picked: Any, strong: float, weak: float = 0.08) -> Any:
    """Encode the opacity of selected and other marks."""
    import altair as alt

    return alt.condition(picked, alt.value(strong), alt.value(weak))


def hollow_points(points: Chart, form: Encoding = None, picked: Any = None) -> Chart:
    """Draw the interior of hollow points, over the points.

    A conditional fill would not need this layer, but would remove the colors from the legend.

    Parameters
    ----------
    points : the chart of the points.
    form, picked : shape and selection of the points, if any.
    """
    import altair as alt

    inside = points.mark_point(filled=True, opacity=1, style="hollow")
    inside = inside.encode(color=alt.value(HOLLOW))
    if form is not None:
        inside = inside.encode(shape=form)
    return inside if picked is None else inside.encode(opacity=opacity_when(picked, 1))


def tooltip(*fields: str) -> list[Any]:
    """Return tooltips of fields, numbers in four digits."""
    import altair as alt

    shown = []
    for field in fields:
        name, _, kind = field.partition(":")
        number: Any = {"format": ".4~g"} if kind == "Q" else {}
        shown.append(alt.Tooltip(field, title=name.replace("_", " "), **number))
    return shown
