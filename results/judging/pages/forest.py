"""A forest plot of a claim: a row for each comparison, a stroke for each setting's interval."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence

from judging.claims.line import Line, Mark, marks

_CLASSES: Mapping[Mark | None, str] = {"+": "f", "−": "a", "?": "u", None: "o"}

COLORS = {"f": "#1e6996", "a": "#f08700", "u": "#8c959f", "o": "#d0d7de"}

_FIGURE = re.compile(r"(-?[\d.e+-]+)(%?) \[(-?[\d.e+-]+)%?, (-?[\d.e+-]+)%?\]")

_NAMES, _PLOT, _STEP, _GAP, _TOP = 330, 420, 5, 12, 34


def forest(title: str, forms: Mapping[str, Sequence[Line]]) -> str:
    """Return the plot as SVG; "" where no line has a figure with its interval.

    Ratios stand on a logarithmic axis around 1, shares, slopes and biases on a linear one around
    0. Marks are computed as for the tables: settings inside the source's assumptions, and the
    others, which are drawn pale.
    """
    rows: dict[tuple[str, str], list[tuple[tuple[float, float, float], Mark | None]]] = {}
    for form, lines in forms.items():
        for group in ([x for x in lines if x.inside], [x for x in lines if not x.inside]):
            for line, mark in zip(group, marks(group), strict=True):
                shown = _FIGURE.match(line.number)
                if shown:
                    value, share, low, high = shown.groups()
                    scale = 0.01 if share else 1.0
                    figures = (float(value) * scale, float(low) * scale, float(high) * scale)
                    color = mark if line.inside else None
                    rows.setdefault((form, line.what), []).append((figures, color))
    if not rows:
        return ""
    ratios = all(" / " in what and not what.startswith("slope") for _, what in rows)
    ends = [end for row in rows.values() for figures, _ in row for end in figures]
    place, ticks = _axis(ends, ratios)
    body, y, last = [], _TOP, ""
    for (form, what), row in rows.items():
        if form != last:
            body.append(_text(4, y + 4, form, "b"))
            y, last = y + 14, form
        body.append(_text(14, y + _STEP * len(row) / 2 + 3, what))
        for (value, low, high), mark in row:
            body.append(
                f'<g class="{_CLASSES[mark]}"><path d="M{place(low):.0f} {y}H{place(high):.0f}"/>'
                f'<circle cx="{place(value):.0f}" cy="{y}" r="2"/></g>'
            )
            y += _STEP
        y += _GAP
    grid = [
        f'<path d="M{place(tick):.0f} {_TOP - 12}V{y}" class="g"/>'
        + _text(place(tick), _TOP - 16, f"{tick:g}", "t")
        for tick in ticks
    ]
    width = _NAMES + _PLOT + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}">'
        f"<title>{html.escape(title)}</title><style>text{{font:11px sans-serif;fill:#57606a}}"
        ".b{font-weight:bold}.t{text-anchor:middle}.g{stroke:#d8dee4}"
        + "".join(f".{kind}{{stroke:{one};fill:{one}}}" for kind, one in COLORS.items())
        + "</style>"
    )
    return "\n".join([head, *grid, *body, "</svg>"]) + "\n"


def _axis(ends: Sequence[float], ratios: bool) -> tuple[Callable[[float], float], Sequence[float]]:
    """Return where a figure is drawn, and the ticks; figures beyond the axis stand at its end."""
    least, most = (0.01, 100.0) if ratios else (-3.0, 3.0)
    scale = math.log10 if ratios else float
    shown = [scale(min(max(end, least), most)) for end in ends]
    low, high = min(*shown, 0.0), max(*shown, 0.05)
    if ratios:
        ticks = [tick for tick in (0.01, 0.1, 0.3, 1, 3, 10, 100) if low <= scale(tick) <= high]
    else:
        step = 10 ** math.floor(math.log10(high - low))
        ticks = [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]

    def place(value: float) -> float:
        at = scale(min(max(value, least), most))
        return _NAMES + _PLOT * (at - low) / (high - low)

    return place, ticks


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{named}>{html.escape(text)}</text>'
