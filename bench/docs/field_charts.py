"""Charts of error against overlap, as SVG in the colors of the page's theme."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from committed import FieldSetting, Line, Track, field, log_ratios, mean_interval, overlap
from ope_bench.report.styles import styles_of

__all__ = ["comparison_chart", "estimator_chart", "ratio_bar"]

WIDTH, HEIGHT = 680, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 14, 46
BINS = 6
FEWEST = 4
"""Worlds of a point, at least."""

X_TICKS = (0.1, 1, 10, 100, 1000, 10_000, 100_000)
Y_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


@dataclass(frozen=True)
class _Scale:
    """A logarithmic axis: where a figure is drawn."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a figure; beyond the axis it stands at its end."""
        at = (np.log(value) - np.log(self.low)) / (np.log(self.high) - np.log(self.low))
        return self.start + (self.end - self.start) * float(min(max(at, 0.0), 1.0))

    def ticks(self, all_ticks: Sequence[float]) -> list[float]:
        """Return the ticks within the axis."""
        return [one for one in all_ticks if self.low <= one <= self.high]


@dataclass(frozen=True)
class _Point:
    """The geometric mean of ratios of the worlds in a bin of overlap, with its 95 % interval."""

    x: float
    value: float
    low: float
    high: float


def _worlds(track: Track) -> list[FieldSetting]:
    return [one for one in field() if track.holds(one) and overlap(one) is not None]


def _cuts(worlds: Sequence[FieldSetting]) -> np.ndarray:
    values = np.array([overlap(one) for one in worlds], dtype=float)
    cuts: np.ndarray = np.quantile(values, np.linspace(0, 1, BINS + 1))
    return cuts


def _points(
    worlds: Sequence[FieldSetting], name: str, other: str, cuts: np.ndarray
) -> list[_Point]:
    found = []
    for low, high in pairwise(cuts):
        last = high == cuts[-1]
        inside = [
            one
            for one in worlds
            if name in one.answers
            and low <= (overlap(one) or 0)
            and ((overlap(one) or 0) < high or last)
        ]
        if len({one.source for one in inside}) < FEWEST:
            continue
        mean, least, most = mean_interval(log_ratios(inside, name, other))
        middle = float(np.exp(np.mean([np.log(overlap(one) or 1) for one in inside])))
        found.append(_Point(middle, *(float(np.exp(one)) for one in (mean, least, most))))
    return found


def _frame(
    title: str, x: _Scale, y: _Scale, reference: str, body: Sequence[str], right: float
) -> str:
    """Return the whole SVG: axes, the line of the reference, and what is drawn on them."""
    height, parts = HEIGHT, []
    for tick in y.ticks(Y_TICKS):
        at = y(tick)
        kind = "c-one" if tick == 1 else "c-grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {at:.1f}H{right:.0f}"/>')
        parts.append(f'<text class="c-end" x="{LEFT - 8}" y="{at + 4:.1f}">{tick:g}</text>')
    for tick in x.ticks(X_TICKS):
        at = x(tick)
        parts.append(f'<path class="c-grid" d="M{at:.1f} {TOP}V{height - BOTTOM}"/>')
        parts.append(
            f'<text class="c-middle" x="{at:.1f}" y="{height - BOTTOM + 17}">{tick:,g}</text>'
        )
    middle = (LEFT + right) / 2
    parts.append(
        f'<text class="c-middle" x="{middle:.0f}" y="{height - 8}">n / max weight: '
        "little overlap on the left, much on the right</text>"
    )
    across = (TOP + height - BOTTOM) / 2
    parts.append(
        f'<text class="c-middle" transform="translate(14 {across:.0f}) rotate(-90)">'
        f"RMSE over that of {html.escape(reference)}</text>"
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{html.escape(title)}"><title>{html.escape(title)}</title>'
        f"{''.join(parts)}{''.join(body)}</svg>"
    )


def _axes(
    worlds: Sequence[FieldSetting], ratios: Sequence[float], right: float
) -> tuple[_Scale, _Scale]:
    values = [overlap(one) or 1.0 for one in worlds]
    least, most = np.quantile(values, [0.03, 1.0]).tolist()
    low, high = min(0.45, *ratios), max(2.2, *ratios)
    return (
        _Scale(least / 1.2, most * 1.2, LEFT, right),
        _Scale(max(low / 1.08, 0.08), min(high * 1.08, 60.0), HEIGHT - BOTTOM, TOP),
    )


def estimator_chart(track: Track, estimator: str) -> str:
    """Return an estimator's chart: a dot for each world, its mean by overlap, the best beside it.

    "" where it ran on too few worlds of the track.
    """
    worlds = [one for one in _worlds(track) if estimator in one.answers]
    if len(worlds) < FEWEST * 2:
        return ""
    cuts = _cuts(worlds)
    points = _points(worlds, estimator, track.reference, cuts)
    ratios = [
        float(np.exp(one.log_rmse(estimator) - one.log_rmse(track.reference))) for one in worlds
    ]
    best = [
        float(
            np.exp(min(one.log_rmse(name) for name in track.panel) - one.log_rmse(track.reference))
        )
        for one in worlds
    ]
    lower, upper = np.quantile([*ratios, *best], [0.02, 0.98]).tolist()
    right = WIDTH - RIGHT
    x, y = _axes(worlds, [lower, upper, *(one.high for one in points)], right)
    body = [
        f'<circle class="c-dot" cx="{x(overlap(one) or 1):.1f}" cy="{y(ratio):.1f}" r="2.2"/>'
        for one, ratio in zip(worlds, ratios, strict=True)
    ]
    panel = []
    for low, high in pairwise(cuts):
        inside = [
            place
            for place, one in enumerate(worlds)
            if low <= (overlap(one) or 0) < high or (high == cuts[-1] and overlap(one) == high)
        ]
        if len(inside) >= FEWEST:
            middle = np.exp(np.mean([np.log(overlap(worlds[place]) or 1) for place in inside]))
            panel.append(
                (x(float(middle)), y(float(np.exp(np.mean(np.log(np.array(best)[inside]))))))
            )
    body.append(f'<path class="c-best" d="{_line(panel)}"/>')
    body.append(f'<path class="c-own" d="{_line([(x(one.x), y(one.value)) for one in points])}"/>')
    body += [
        f'<path class="c-bar" d="M{x(one.x):.1f} {y(one.low):.1f}V{y(one.high):.1f}"/>'
        f'<circle class="c-mark" cx="{x(one.x):.1f}" cy="{y(one.value):.1f}" r="4"/>'
        for one in points
    ]
    title = f"Error of {estimator} against overlap, {len(worlds)} drawn worlds"
    return _frame(title, x, y, track.reference, body, right)


def comparison_chart(track: Track, estimators: Sequence[str]) -> str:
    """Return the chart of some estimators' mean errors by overlap, labelled at their ends."""
    worlds = _worlds(track)
    cuts = _cuts(worlds)
    lines = {name: _points(worlds, name, track.reference, cuts) for name in estimators}
    right = WIDTH - 130
    values = [end for points in lines.values() for one in points for end in (one.value,)]
    x, y = _axes(worlds, values, right)
    chosen = styles_of({name: name for name in estimators})
    body = []
    ends: dict[str, float] = {}
    for name, points in lines.items():
        style = chosen[name]
        dash = f' stroke-dasharray="{" ".join(map(str, style.dash))}"' if style.dash[1] else ""
        body.append(
            f'<path class="c-line" stroke="{style.color}"{dash} '
            f'd="{_line([(x(one.x), y(one.value)) for one in points])}"/>'
        )
        body += [
            f'<path d="{style.shape}" fill="{style.color}" '
            f'transform="translate({x(one.x):.1f} {y(one.value):.1f}) scale(4.2)"/>'
            for one in points
        ]
        ends[name] = y(points[-1].value)
    last = max(x(points[-1].x) for points in lines.values())
    for name, at in _apart(ends, 15).items():
        body.append(
            f'<path d="M{last + 5:.1f} {ends[name]:.1f}L{last + 14:.1f} {at:.1f}" class="c-lead"/>'
            f'<path d="{chosen[name].shape}" fill="{chosen[name].color}" '
            f'transform="translate({last + 20:.1f} {at:.1f}) scale(4.2)"/>'
            # In ink: the colors of lines are too light for text.
            f'<text x="{last + 29:.1f}" y="{at + 4:.1f}" class="c-name">{html.escape(name)}</text>'
        )
    title = f"Mean error by overlap over that of {track.reference}: {', '.join(estimators)}"
    return _frame(title, x, y, track.reference, body, right)


def ratio_bar(line: Line) -> str:
    """Return an estimator's ratio with its interval as a small picture, 1 marked: from .6 to 2."""
    x = _Scale(0.6, 2.0, 4, 86)
    return (
        '<svg class="bar" viewBox="0 0 90 12" aria-hidden="true">'
        f'<path class="c-one" d="M{x(1):.1f} 0V12"/>'
        f'<path class="c-bar" d="M{x(line.low):.1f} 6H{x(line.high):.1f}"/>'
        f'<circle class="c-mark" cx="{x(line.ratio):.1f}" cy="6" r="3"/></svg>'
    )


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else ""


def _apart(places: Mapping[str, float], step: float) -> dict[str, float]:
    """Move labels apart, as little as possible, keeping their order."""
    order = sorted(places, key=lambda name: places[name])
    moved = [places[name] for name in order]
    for _ in range(200):
        for place in range(len(order) - 1):
            gap = step - (moved[place + 1] - moved[place])
            if gap > 0:
                moved[place] -= gap / 2
                moved[place + 1] += gap / 2
    return dict(zip(order, moved, strict=True))
