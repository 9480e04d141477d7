"""What the charts share: how a method is told from others, tooltips, data by name."""

from __future__ import annotations

from typing import Any

__all__ = [
    "HOLLOW",
    "Chart",
    "Encoding",
    "colour",
    "dash",
    "faded",
    "hollowed",
    "log_scale",
    "named_table",
    "picked_method",
    "shape",
    "tooltip",
]

Chart = Any
"""An Altair chart; Altair is imported when one is made."""

Encoding = Any

HOLLOW = "paper"
"""Stands for the colour that a chart is drawn on."""


def named_table(name: str = "table") -> Any:
    """Data that whoever shows the chart hands to it."""
    import altair as alt

    return alt.NamedData(name)


TITLE = "estimator"
"""Of the legend."""


def _legend(**facts: Any) -> Any:
    """The same in every channel, as the title is, so that the legends become one."""
    import altair as alt

    return alt.Legend(symbolLimit=0, symbolOpacity=1, **facts)


def colour(*, legend: bool = True) -> Encoding:
    """A method's colour."""
    import altair as alt

    return alt.Color("method:N", title=TITLE, legend=_legend() if legend else None)


def dash(*, legend: bool = True) -> Encoding:
    """A method's line pattern."""
    import altair as alt

    # Long enough to see the pattern.
    shown = _legend(symbolSize=260) if legend else None
    return alt.StrokeDash("method:N", title=TITLE, legend=shown)


def shape(*, legend: bool = True) -> Encoding:
    """A method's point shape."""
    import altair as alt

    return alt.Shape("method:N", title=TITLE, legend=_legend() if legend else None)


def picked_method() -> Any:
    """A click in the legend singles an estimator out."""
    import altair as alt

    return alt.selection_point(fields=["method"], bind="legend", name="picked")


def faded(picked: Any, strong: float, weak: float = 0.08) -> Any:
    """Opacity of what is picked, and of the rest."""
    import altair as alt

    return alt.condition(picked, alt.value(strong), alt.value(weak))


def hollowed(points: Chart, form: Encoding = None, picked: Any = None) -> Chart:
    """The inside of points that are to look hollow, which goes over the points themselves.

    A conditional fill would do without, but then the legend has no colours.

    Parameters
    ----------
    points : where they are.
    form, picked : their shape and what is picked, where the points have such.
    """
    import altair as alt

    inside = points.mark_point(filled=True, opacity=1, style="hollow")
    inside = inside.encode(color=alt.value(HOLLOW))
    if form is not None:
        inside = inside.encode(shape=form)
    return inside if picked is None else inside.encode(opacity=faded(picked, 1))


def log_scale(padding: int = 14) -> Any:
    """A logarithmic axis that ends near the data."""
    import altair as alt

    return alt.Scale(type="log", nice=False, padding=padding)


def tooltip(*fields: str) -> list[Any]:
    """Fields with their names in words and their numbers in four digits."""
    import altair as alt

    shown = []
    for field in fields:
        name, _, kind = field.partition(":")
        number: Any = {"format": ".4~g"} if kind == "Q" else {}
        shown.append(alt.Tooltip(field, title=name.replace("_", " "), **number))
    return shown
