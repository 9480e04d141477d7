"""Failures by setting, and target mass without support."""

from __future__ import annotations

from typing import Any

from ope_bench.report.charts.encodings import Chart, named_table, tooltip

__all__ = ["positivity"]


def positivity(*, mass: bool = True, cell: int = 38, row: int = 17) -> Chart:
    """Chart failure rates of estimators by setting and, below, the target's unsupported mass.

    Parameters
    ----------
    mass : draw the lower part, which needs environments with known support.
    cell, row : width and height of a cell.
    """
    import altair as alt

    failures = _map(
        alt.Chart(named_table()).transform_filter("isValid(datum.failure_rate)"),
        "method",
        "failure_rate",
        "trials without an estimate",
        tooltip(
            "method:N",
            "setting:N",
            "failure_rate:Q",
            "positivity_rate:Q",
            "unsupported_mass:Q",
            "observed_unsupported_mass:Q",
            "replicates:Q",
        ),
        named=not mass,
    )
    size = {"width": alt.Step(cell), "height": alt.Step(row)}
    if not mass:
        return failures.properties(**size)
    support = (
        alt.Chart(named_table())
        .transform_fold(["unsupported_mass", "observed_unsupported_mass"], as_=["which", "mass"])
        .transform_filter("isValid(datum.mass)")
        .transform_aggregate(mass="mean(mass)", groupby=["setting", "which"])
        .transform_calculate(
            which="datum.which == 'unsupported_mass' ? 'by the true policy' : 'never logged'"
        )
    )
    tips = tooltip("setting:N", "which:N", "mass:Q")
    below = _map(support, "which", "mass", "target mass without support", tips, named=True)
    return alt.vconcat(failures.properties(**size), below.properties(**size), spacing=10)


def _map(base: Any, rows: str, field: str, title: str, tips: list[Any], *, named: bool) -> Any:
    """Draw shares as shades and text; with ``named``, setting names are below."""
    import altair as alt

    plain: Any = {"grid": False, "domain": False, "ticks": False}
    below = alt.Axis(labelAngle=-40, labelLimit=180, **plain) if named else None
    placed = base.encode(
        x=alt.X("setting:N", sort=None, title=None, axis=below),
        y=alt.Y(f"{rows}:N", title=None, sort=None, axis=alt.Axis(labelLimit=220, **plain)),
    )
    shade = alt.Scale(domain=[0, 1], range=["#fff7ec", "#fc8d59", "#b30000"])
    cells = placed.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color(f"{field}:Q", title=title, scale=shade, legend=None), tooltip=tips
    )
    # 0 % means exactly none, 100 % exactly all.
    share = (
        f"datum.{field} > 0 && datum.{field} < 0.005 ? '<1%' : "
        f"datum.{field} < 1 && datum.{field} >= 0.995 ? '>99%' : format(datum.{field}, '.0%')"
    )
    words = placed.transform_calculate(words=share)
    words = words.mark_text(style="cell").encode(
        text="words:N",
        color=alt.condition(f"datum.{field} > 0.6", alt.value("white"), alt.value("#222")),
        # Cells without failures have no text.
        opacity=alt.condition(f"datum.{field} > 0", alt.value(1), alt.value(0.35)),
    )
    return (cells + words).properties(title=alt.Title(title, anchor="start", frame="group"))
