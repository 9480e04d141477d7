"""What each chart looks like: one definition for the page and for figures in files.

A chart names the data it draws (``table``) and holds none, so that the page can hand it the rows
which its filters leave. Colours, fonts and sizes belong to who shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

__all__ = [
    "CHARTS",
    "cdf",
    "errors",
    "intervals",
    "pareto",
    "positivity",
    "ranks",
    "sweep",
    "times",
]

Chart = Any
"""An Altair chart; Altair is imported when one is made."""

BY_METHOD = "estimator"


def _table(name: str = "table") -> Any:
    import altair as alt

    return alt.NamedData(name)


def _colour(legend: bool = True) -> Any:
    import altair as alt

    shown = alt.Legend(symbolLimit=0, symbolOpacity=1) if legend else None
    return alt.Color("method:N", title=BY_METHOD, legend=shown)


def _picked() -> Any:
    """A click in the legend singles an estimator out."""
    import altair as alt

    return alt.selection_point(fields=["method"], bind="legend", name="picked")


def _faded(picked: Any, strong: float, weak: float = 0.08) -> Any:
    import altair as alt

    return alt.condition(picked, alt.value(strong), alt.value(weak))


def _by_score() -> Any:
    import altair as alt

    return alt.EncodingSortField("score", op="min", order="ascending")


def _tooltip(*fields: str) -> list[Any]:
    import altair as alt

    shown = []
    for field in fields:
        name, _, kind = field.partition(":")
        number: Any = {"format": ".4~g"} if kind == "Q" else {}
        shown.append(alt.Tooltip(field, title=name.replace("_", " "), **number))
    return shown


def sweep(
    parameter: str = "value",
    measure: Literal["rmse", "log10_rmse"] = "rmse",
    *,
    logarithmic: bool = True,
) -> Chart:
    """RMSE against a parameter, with bands for the intervals.

    A hollow point is a row of which some trials failed: its RMSE is over the others.

    Parameters
    ----------
    parameter : what the horizontal axis is called.
    measure : ``log10_rmse`` has no bands and a linear axis, as papers print it.
    logarithmic : the parameter's axis; only for values above 0.
    """
    import altair as alt

    picked = _picked()
    x = alt.X(
        "value:Q",
        title=parameter.replace("_", " "),
        scale=alt.Scale(type="log", nice=False, padding=12)
        if logarithmic
        else alt.Scale(zero=False),
        axis=alt.Axis(format="~s", labelOverlap=True),
    )
    vertical = (
        alt.Scale(type="log", nice=False, padding=10)
        if measure == "rmse"
        else alt.Scale(zero=False)
    )
    title = "RMSE" if measure == "rmse" else "log10 RMSE"
    axis = alt.Axis(format="~g", labelOverlap=True)
    y = alt.Y(f"{measure}:Q", title=title, scale=vertical, axis=axis)
    base = alt.Chart(_table()).encode(x=x, color=_colour())
    known = f"isValid(datum.{measure})"
    line = (
        base.mark_line(strokeWidth=1.5)
        .encode(y=y, opacity=_faded(picked, 1))
        .transform_filter(known)
    )
    point = (
        base.mark_point(size=36, filled=False, strokeWidth=1.5)
        .encode(
            y=y,
            opacity=_faded(picked, 1),
            fill=alt.condition(
                "datum.failure_rate > 0", alt.value("transparent"), "method:N", legend=None
            ),
            tooltip=_tooltip(
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
    if measure != "rmse":
        return line + point
    band = (
        base.mark_area(interpolate="linear")
        .encode(
            y=alt.Y("rmse_low:Q", title=title, scale=vertical),
            y2="rmse_high:Q",
            opacity=_faded(picked, 0.16, 0.02),
        )
        .transform_filter("isValid(datum.rmse_low)")
    )
    return band + line + point


def intervals() -> Chart:
    """One board: RMSE and its interval, best score first; failures beside it."""
    import altair as alt

    y = alt.Y("method:N", sort=_by_score(), title=None, axis=alt.Axis(labelLimit=220))
    base = alt.Chart(_table()).transform_filter("isValid(datum.rmse)").encode(y=y)
    x = alt.X(
        "rmse:Q",
        title="RMSE",
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=alt.Axis(format="~g", labelOverlap=True),
    )
    bars = (
        base.mark_rule(strokeWidth=2)
        .encode(x=alt.X("rmse_low:Q", title="RMSE"), x2="rmse_high:Q", color=_colour(False))
        .transform_filter("isValid(datum.rmse_low)")
    )
    median = (
        base.mark_tick(thickness=1.5, size=9, opacity=0.8)
        .encode(
            x="median_absolute_error:Q",
            color=_colour(False),
            tooltip=_tooltip("method:N", "median_absolute_error:Q"),
        )
        .transform_filter("datum.median_absolute_error > 0")
    )
    points = base.mark_point(size=44, opacity=1).encode(
        x=x,
        color=_colour(False),
        fill=alt.condition(
            "datum.heavy_tailed", alt.value("transparent"), "method:N", legend=None
        ),
        tooltip=_tooltip(
            "method:N",
            "rmse:Q",
            "rmse_low:Q",
            "rmse_high:Q",
            "median_absolute_error:Q",
            "score:Q",
            "failure_rate:Q",
        ),
    )
    return bars + median + points


def positivity(*, mass: bool = True) -> Chart:
    """Failure rate of every estimator in every setting; below, the target's unsupported mass.

    Parameters
    ----------
    mass : draw the lower part; it needs an environment that tells of support.
    """
    import altair as alt

    x = alt.X("setting:N", sort=None, title=None, axis=alt.Axis(labelAngle=-40, labelLimit=180))
    shade = alt.Scale(domain=[0, 1], range=["#fff7ec", "#fc8d59", "#b30000"])
    tip = _tooltip(
        "method:N",
        "setting:N",
        "failure_rate:Q",
        "positivity_rate:Q",
        "unsupported_mass:Q",
        "observed_unsupported_mass:Q",
        "replicates:Q",
    )

    def map_of(field: str, y: Any, title: str) -> Any:
        base = alt.Chart(_table()).encode(x=x, y=y).transform_filter(f"isValid(datum.{field})")
        cells = base.mark_rect().encode(
            color=alt.Color(f"{field}:Q", title=title, scale=shade, legend=None), tooltip=tip
        )
        text = base.mark_text(fontSize=9, fontStyle="normal").encode(
            text=alt.Text(f"{field}:Q", format=".0%"),
            color=alt.condition(f"datum.{field} > 0.6", alt.value("white"), alt.value("#222")),
        )
        return (cells + text).properties(
            width=alt.Step(38), height=alt.Step(17), title=alt.Title(title, anchor="start")
        )

    rows = alt.Y("method:N", title=None, sort=None, axis=alt.Axis(labelLimit=220))
    failures = map_of("failure_rate", rows, "trials without an estimate")
    if not mass:
        return failures
    support = (
        alt.Chart(_table())
        .transform_fold(["unsupported_mass", "observed_unsupported_mass"], as_=["which", "mass"])
        .transform_filter("isValid(datum.mass)")
        .transform_aggregate(mass="mean(mass)", groupby=["setting", "which"])
        .transform_calculate(
            which="datum.which == 'unsupported_mass' ? 'by the true policy' : 'never logged'"
        )
    )
    kinds = alt.Y("which:N", title=None, axis=alt.Axis(labelLimit=220))
    base = support.encode(x=x, y=kinds)
    share = base.mark_rect().encode(
        color=alt.Color("mass:Q", scale=shade, legend=None),
        tooltip=_tooltip("setting:N", "which:N", "mass:Q"),
    )
    text = base.mark_text(fontSize=9).encode(
        text=alt.Text("mass:Q", format=".0%"),
        color=alt.condition("datum.mass > 0.6", alt.value("white"), alt.value("#222")),
    )
    below = (share + text).properties(
        width=alt.Step(38),
        height=alt.Step(17),
        title=alt.Title("target mass without support", anchor="start"),
    )
    return alt.vconcat(failures, below, spacing=14)


def pareto() -> Chart:
    """RMSE against seconds on one setting; a line joins what nothing beats in both."""
    import altair as alt

    picked = _picked()
    base = alt.Chart(_table()).transform_filter("datum.seconds > 0 && datum.rmse > 0")
    x = alt.X(
        "seconds:Q",
        title="median seconds of fit and estimate",
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=alt.Axis(format="~s", labelOverlap=True),
    )
    y = alt.Y(
        "rmse:Q",
        title="RMSE",
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=alt.Axis(format="~g", labelOverlap=True),
    )
    front = (
        base.transform_window(
            best="min(rmse)", frame=[None, 0], sort=[{"field": "seconds"}, {"field": "rmse"}]
        )
        .transform_filter("datum.rmse <= datum.best")
        .mark_line(interpolate="step-after", strokeDash=[4, 3], strokeWidth=1, color="#888")
        .encode(x=x, y=y, order=alt.Order("seconds:Q"))
    )
    points = (
        base.mark_point(filled=True, size=70)
        .encode(
            x=x,
            y=y,
            color=_colour(),
            shape=alt.Shape("device:N", title="device"),
            opacity=_faded(picked, 0.95),
            tooltip=_tooltip("method:N", "device:N", "seconds:Q", "rmse:Q"),
        )
        .add_params(picked)
    )
    return front + points


def times() -> Chart:
    """Seconds of every estimator, devices side by side."""
    import altair as alt

    return (
        alt.Chart(_table())
        .transform_filter("datum.seconds > 0")
        .transform_fold(["fit_seconds", "estimate_seconds"], as_=["part", "spent"])
        .transform_filter("datum.spent > 0")
        .transform_calculate(part="datum.part == 'fit_seconds' ? 'fit' : 'estimate'")
        .mark_point(filled=True, size=56, opacity=0.9)
        .encode(
            x=alt.X(
                "spent:Q",
                title="median seconds",
                scale=alt.Scale(type="log", nice=False, padding=14),
                axis=alt.Axis(format="~s", labelOverlap=True),
            ),
            y=alt.Y(
                "estimator:N",
                title=None,
                sort=alt.EncodingSortField("seconds", op="min"),
                axis=alt.Axis(labelLimit=220, grid=True),
            ),
            color=alt.Color("device:N", title="device"),
            shape=alt.Shape("part:N", title="part"),
            tooltip=_tooltip("method:N", "device:N", "part:N", "spent:Q"),
        )
    )


def cdf() -> Chart:
    """Distribution function of squared error on one setting."""
    import altair as alt

    picked = _picked()
    return (
        alt.Chart(_table())
        .transform_filter("datum.squared_error > 0")
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X(
                "squared_error:Q",
                title="squared error",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~g", labelOverlap=True, tickCount=6),
            ),
            y=alt.Y(
                "share:Q",
                title="share of trials",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            color=_colour(),
            opacity=_faded(picked, 1),
            tooltip=_tooltip("method:N", "squared_error:Q", "share:Q"),
        )
        .add_params(picked)
    )


def errors(unit: float = 1.0) -> Chart:
    """Every error of one setting, estimate minus truth.

    Parameters
    ----------
    unit : up to this size the axis is linear, logarithmic beyond.
    """
    import altair as alt

    base = alt.Chart(_table())
    x = alt.X(
        "error:Q",
        title="estimate minus truth",
        scale=alt.Scale(type="symlog", constant=unit),
        axis=alt.Axis(format="~g", tickCount=7, labelOverlap=True),
    )
    y = alt.Y("method:N", title=None, sort=None, axis=alt.Axis(labelLimit=220))
    points = base.mark_tick(thickness=1.2, size=11, opacity=0.45).encode(
        x=x,
        y=y,
        color=_colour(False),
        tooltip=_tooltip("method:N", "replicate:Q", "error:Q"),
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"error": 0}]))
        .mark_rule(color="#888", strokeWidth=1)
        .encode(x=x)
    )
    return zero + points


def ranks(title: str = "mean rank") -> Chart:
    """A critical-difference diagram: bars join what cannot be told apart.

    It draws ``methods``, ``elbows`` and ``bars``.
    """
    import altair as alt

    x = alt.X(
        "x:Q",
        title=title,
        scale=alt.Scale(zero=False, nice=False, padding=120),
        axis=alt.Axis(orient="top", grid=False, tickCount=8),
    )
    y = alt.Y("level:Q", axis=None, scale=alt.Scale(reverse=True, zero=True, nice=False))
    lines = (
        alt.Chart(_table("elbows"))
        .mark_line(strokeWidth=1)
        .encode(x=x, y=y, order="step:Q", color=_colour(False), detail="method:N")
    )
    bars = (
        alt.Chart(_table("bars"))
        .mark_rule(strokeWidth=4, color="#888")
        .encode(x=alt.X("low:Q", title=title), x2="high:Q", y=y)
    )

    def names(left: bool) -> Any:
        return (
            alt.Chart(_table("methods"))
            .transform_filter("datum.left" if left else "!datum.left")
            .transform_calculate(words="datum.method + '  ' + format(datum.mean_rank, '.2f')")
            .mark_text(align="right" if left else "left", dx=-4 if left else 4)
            .encode(x=x, y=y, text="words:N", tooltip=_tooltip("method:N", "mean_rank:Q"))
        )

    return lines + bars + names(left=True) + names(left=False)


CHARTS: dict[str, Callable[[], Chart]] = {
    "intervals": intervals,
    "positivity": positivity,
    "pareto": pareto,
    "times": times,
    "cdf": cdf,
    "errors": errors,
    "ranks": ranks,
}
"""Charts that do not depend on what they show."""
