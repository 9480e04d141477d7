"""Parts that charts share: encodings of estimators, logarithmic axes, marks.

Importing this module imports Altair, which takes a quarter of a second.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt

from ope_bench.report.styles import HOLLOW

# Encodings

Chart = Any
"""An Altair chart."""


def named_table(name: str = "table") -> Any:
    """Return a reference to data that are provided when the chart is shown."""
    return alt.NamedData(name)


def _legend(**facts: Any) -> Any:
    """Return one legend for all channels, so that Vega merges them."""
    return alt.Legend(symbolLimit=0, symbolOpacity=1, **facts)


def color(*, legend: bool = True) -> Any:
    """Encode an estimator's color."""
    return alt.Color("method:N", title="estimator", legend=_legend() if legend else None)


def dash(*, legend: bool = True) -> Any:
    """Encode an estimator's line pattern."""
    # Long enough to show the pattern.
    shown = _legend(symbolSize=260) if legend else None
    return alt.StrokeDash("method:N", title="estimator", legend=shown)


def shape(*, legend: bool = True) -> Any:
    """Encode an estimator's point shape."""
    return alt.Shape("method:N", title="estimator", legend=_legend() if legend else None)


def picked_method() -> Any:
    """Return a selection of an estimator by a click in the legend."""
    return alt.selection_point(fields=["method"], bind="legend", name="picked")


def opacity_when(picked: Any, strong: float, weak: float = 0.08) -> Any:
    """Encode the opacity of selected and other marks."""
    return alt.condition(picked, alt.value(strong), alt.value(weak))


def hollow_points(points: Chart, form: Any = None, picked: Any = None) -> Chart:
    """Draw the interior of hollow points, over the points.

    A conditional fill would not need this layer, but would remove the colors from the legend.

    Parameters
    ----------
    points : the chart of the points.
    form, picked : shape and selection of the points, if any.
    """
    inside = points.mark_point(filled=True, opacity=1, style="hollow")
    inside = inside.encode(color=alt.value(HOLLOW))
    if form is not None:
        inside = inside.encode(shape=form)
    return inside if picked is None else inside.encode(opacity=opacity_when(picked, 1))


def tooltip(fields: str) -> list[Any]:
    """Return tooltips of fields that spaces separate, numbers in four digits."""
    shown = []
    for field in fields.split():
        name, _, kind = field.partition(":")
        number: Any = {"format": ".4~g"} if kind == "Q" else {}
        shown.append(alt.Tooltip(field, title=name.replace("_", " "), **number))
    return shown


# Axes

_FAR = 30.0
"""Multiple of the upper quartile above which a value lies beyond the end of the axis."""

_ROOM = 3.0
"""Multiple of the upper quartile at which such an axis ends."""

_NUMBER = (
    "abs(datum.value) >= 0.0009 && abs(datum.value) < 9999 || datum.value == 0 ? "
    "format(datum.value, '~g') : replace(format(datum.value, '~e'), '+', '')"
)
SIZE = "format(datum.value, datum.value < 1 ? '~g' : '~s')"  # 0.6 and 20k
_SECONDS = (
    "datum.value < 9.99e-4 ? format(datum.value * 1e6, '~g') + ' µs' : "
    "datum.value < 0.999 ? format(datum.value * 1e3, '~g') + ' ms' : "
    "format(datum.value, '~g') + ' s'"
)


@dataclass(frozen=True)
class AxisLimits:
    """Ends of an axis.

    Parameters
    ----------
    low, high : ends of the axis.
    cut : whether values lie above.
    """

    low: float
    high: float
    cut: bool = False

    @property
    def domain(self) -> tuple[float, float]:
        """The ends with some room, above with more where arrows stand for what was cut."""
        width = max(math.log10(self.high / self.low), 0.3)
        above = 0.16 if self.cut else 0.07
        return self.low / 10 ** (0.07 * width), self.high * 10 ** (above * width)


def limits_of(values: Iterable[float | None]) -> AxisLimits | None:
    """Return the ends of a logarithmic axis; None without a positive finite value.

    The axis has all values unless the largest is far above the upper quartile: one such value
    would leave no room for the differences of all others.

    >>> limits_of([0.1, 0.2, 0.4, 3.0])
    AxisLimits(low=0.1, high=3.0, cut=False)
    >>> limits_of([0.1, 0.2, 0.4, 0.5, 1e11]).cut
    True
    """
    known = sorted(one for one in values if one is not None and 0 < one < math.inf)
    if not known:
        return None
    quartile = known[(3 * (len(known) - 1)) // 4]
    if known[-1] <= _FAR * quartile:
        return AxisLimits(known[0], known[-1])
    kept = [one for one in known if one <= _FAR * quartile]
    return AxisLimits(known[0], max(kept[-1], _ROOM * quartile), True)


def log_scale(padding: int = 14, limits: AxisLimits | None = None) -> Any:
    """Return a logarithmic scale that ends near the data, or at limits.

    Parameters
    ----------
    padding : points between the data and the ends.
    limits : ends of the axis; its marks must be cut there.
    """
    if limits is None:
        return alt.Scale(type="log", nice=False, padding=padding)
    return alt.Scale(type="log", nice=False, domain=list(limits.domain))


def log_axis(unit: Literal["", "s"] = "", limits: AxisLimits | None = None, **facts: Any) -> Any:
    """Return a logarithmic axis with powers of ten, over few powers with 2 and 5 as well.

    Parameters
    ----------
    unit : ``s`` writes seconds as µs, ms and s.
    limits : ends of the axis; without them, the chart chooses ticks when it is drawn.
    facts : further properties of the axis.
    """
    label = _SECONDS if unit == "s" else _NUMBER
    if limits is None:
        first = "round(datum.value / pow(10, floor(log(datum.value)/LN10 + 1e-6)))"
        shown = f"{first} == 1 || {first} == 2 || {first} == 5 ? {label} : ''"
        return alt.Axis(labelExpr=shown, labelOverlap="greedy", **facts)
    low, high = math.floor(math.log10(limits.low)), math.ceil(math.log10(limits.high))
    decades = math.log10(limits.high / limits.low)
    step = max(1, math.ceil(decades / 7))
    firsts: Sequence[int] = (1, 2, 5) if decades < 1.6 else (1, 3) if decades < 2.2 else (1,)
    ticks = [
        # By text, so that a power of ten is one exactly.
        float(f"{first}e{power}")
        for power in range(low - 1, high + 2)
        if power % step == 0 or len(firsts) > 1
        for first in firsts
    ]
    return alt.Axis(labelExpr=label, values=ticks, labelOverlap="greedy", **facts)


def log_encoding(
    channel: Any,
    field: str,
    title: str,
    limits: AxisLimits | None = None,
    *,
    unit: Literal["", "s"] = "",
    padding: int = 14,
    **facts: Any,
) -> Any:
    """Encode a field along a logarithmic axis.

    Parameters
    ----------
    channel : ``alt.X`` or ``alt.Y``.
    field, title : what the axis shows.
    limits, unit, padding, facts : as for `log_scale` and `log_axis`.
    """
    axis = log_axis(unit, limits, **facts)
    return channel(f"{field}:Q", title=title, scale=log_scale(padding, limits), axis=axis)


def symlog_axis(unit: float, most: float) -> Any:
    """Return the axis of a scale that is linear within a unit and ends at ``most``."""
    return alt.Axis(labelExpr=_NUMBER, values=symlog_ticks(unit, most), labelOverlap="greedy")


def symlog_ticks(unit: float, most: float) -> list[float]:
    """Return 0 and powers of ten on both sides, for an axis that is linear within a unit.

    >>> symlog_ticks(0.02, 3.0)
    [-1.0, -0.1, 0.0, 0.1, 1.0]
    """
    first = math.ceil(math.log10(unit))
    last = max(first, math.floor(math.log10(max(most, 1e-300))))
    step = max(1, math.ceil((last - first + 1) / 4))
    powers = [float(f"1e{power}") for power in range(last, first - 1, -step)]
    return [*(-one for one in powers), 0.0, *reversed(powers)]


# Marks

_ARROWS = {"up": "\N{UPWARDS ARROW}", "right": "\N{RIGHTWARDS ARROW}"}


def arrows(base: Any, field: str, limits: AxisLimits, direction: Literal["up", "right"]) -> Any:
    """Draw an arrow at the end of the axis, with the value, for each row beyond it.

    Parameters
    ----------
    base : chart of the rows, encoded along the other axis.
    field : the value that the axis shows.
    limits : ends of the axis.
    direction : where the axis ends.
    """
    sign = _ARROWS[direction]
    beyond = base.transform_filter(f"datum.{field} > {limits.domain[1]!r}")
    words = f"'{sign} ' + replace(format(datum.{field}, '.0e'), '+', '')"
    beyond = beyond.transform_calculate(beyond=words)
    tips = tooltip(f"method:N {field}:Q")
    if direction == "up":
        # Several at one place stand below each other.
        placed = beyond.transform_window(
            place="row_number()", groupby=["value"], sort=[{"field": field, "order": "descending"}]
        ).transform_calculate(top="9 * datum.place - 4")
        mark = placed.mark_text(align="center", style="cell")
        at: Any = {"y": alt.Y("top:Q", scale=None, axis=None)}
    else:
        mark = beyond.mark_text(align="right", style="cell")
        at = {"x": alt.value("width")}
    return mark.encode(text="beyond:N", color=color(legend=False), tooltip=tips, **at)


def line_labels(x: Any, y: Any, at: Any) -> Any:
    """Name the lines at the right edge, from the table ``ends``.

    A line of the table has the ``method``, the end of its line (``value``, ``y``) and the height
    of its name (``at``), which a thin line joins.

    Parameters
    ----------
    x, y, at : the chart's encodings, of the fields ``value``, ``y`` and ``at``.
    """
    ends = alt.Chart(named_table("ends"))
    leaders = ends.mark_rule(strokeWidth=0.4, opacity=0.6).encode(
        x=x, x2=alt.value("width"), y=y, y2="at:Q", color=color(legend=False)
    )
    names = ends.mark_text(align="left", dx=3).encode(
        x=alt.value("width"),
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


def offline_chart(spec: Mapping[str, Any]) -> Any:
    """Return a chart that a notebook shows as SVG: Altair's own page loads scripts by network."""

    class OfflineChart(alt.LayerChart):
        def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
            drawn = io.StringIO()
            self.save(drawn, format="svg")
            return {"image/svg+xml": drawn.getvalue()}

    return OfflineChart.from_dict(dict(spec))
