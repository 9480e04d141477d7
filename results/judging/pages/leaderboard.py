"""The leaderboard: who errs least over worlds as users meet them, by the signal of their logs."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from judging.pages.entries import entries_section
from judging.pages.page import opening, table
from judging.trials.field import FOLDERS, TRACKS, FieldSetting, settings_of
from ope_bench.boards.tracks import NEAR, STRATA, Line, Track, board_of, line_of, log_ratios
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.ranks import rank_ranges

BOARD = (*FOLDERS, "field-trials")
"""Folders whose trials the leaderboard counts."""

FIRST = 1
"""Place of the track of the first table: propensities and the target policy are known."""

SHOWN = 12
"""Rows of the first table; estimators beyond stand in the folded one."""

CORES = 2
"""Of a machine on which the suites are said to run."""

LIMITS = {"weak": "below .05", "middle": "from .05 to .25", "strong": "above .25"}


@cache
def board_settings(results: Path) -> list[FieldSetting]:
    """Return the settings whose trials the leaderboard counts, read once.

    Randomized trials count against the rows that a log leaves; their settings of which these are
    not known do not count.
    """
    found = settings_of(results, BOARD)
    kept = [one for one in found if one.trial is None or one.others is not None]
    return [one if one.others is None else replace(one, truth=one.others) for one in kept]


# One figure over three strata.


@dataclass(frozen=True)
class Whole:
    """An estimator over the strata of a track.

    Parameters
    ----------
    estimator : its name.
    ratios : by stratum, geometric mean over sources of RMSE over the reference's.
    mean, low, high : geometric mean of the three, with its 95 % interval over sources.
    rank_low, rank_high : the ranks that the data leave open, for all estimators at once.
    """

    estimator: str
    ratios: Mapping[str, float]
    mean: float
    low: float
    high: float
    rank_low: int
    rank_high: int

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.ratios.values())


def in_strata(track: Track, settings: Sequence[FieldSetting]) -> dict[str, list[FieldSetting]]:
    """Return the settings of a track by stratum; those without a signal are in none."""
    inside = [one for one in settings if track.holds(one) and track.reference in one.answers]
    return {name: [one for one in inside if one.stratum == name] for name in STRATA}


def over_strata(track: Track, settings: Sequence[FieldSetting]) -> list[Whole]:
    """Return the estimators that ran on all settings of a track, the least mean first.

    A source that has settings in several strata stands in each with those.
    """
    parts = in_strata(track, settings)
    every = [one for part in parts.values() for one in part]
    names = [name for name in track.estimators(every) if all(name in one.answers for one in every)]
    logs = {
        stratum: np.array([log_ratios(part, name, track.reference) for name in names])
        for stratum, part in parts.items()
    }
    means = {stratum: one.mean(axis=1) for stratum, one in logs.items()}
    mean: FloatArray = np.mean(list(means.values()), axis=0)
    error = np.sqrt(sum(one.var(axis=1, ddof=1) / one.shape[1] for one in logs.values())) / 3
    ranges = rank_ranges(*logs.values())
    found = [
        Whole(
            name,
            {stratum: float(np.exp(one[k])) for stratum, one in means.items()},
            float(np.exp(mean[k])),
            float(np.exp(mean[k] - 1.96 * error[k])),
            float(np.exp(mean[k] + 1.96 * error[k])),
            *ranges[k],
        )
        for k, name in enumerate(names)
    ]
    return sorted(found, key=lambda one: (one.mean, one.estimator))


def whole_lines(track: Track, settings: Sequence[FieldSetting]) -> list[Line]:
    """Return the lines of a track with the figures over its strata, those of a part last."""
    every = [one for part in in_strata(track, settings).values() for one in part]
    lines = {line.estimator: line for line in board_of(track, every)}
    whole = [
        replace(
            lines.pop(one.estimator),
            ratio=one.mean,
            low=one.low,
            high=one.high,
            rank=one.rank_low,
            rank_low=one.rank_low,
            rank_high=one.rank_high,
        )
        for one in over_strata(track, settings)
    ]
    return [*whole, *lines.values()]


def leaderboard_pages(
    results: Path, predicts: str, leaders: str, *further: str
) -> dict[Path, str]:
    """Return the page, and its figures, by path.

    Parameters
    ----------
    results : the folder results/.
    predicts : what was predicted, and what came, in a sentence.
    leaders : who may be best, a sentence a stratum.
    further : sections at its end.
    """
    settings = board_settings(results)
    texts: dict[Path, str] = {}
    first = over_strata(TRACKS[FIRST], settings)
    sections = [_stratum(stratum, settings) for stratum in STRATA]
    for number, track in enumerate(TRACKS, 1):
        path = results / f"figures/leaderboard-{number}.svg"
        texts[path] = drawn(
            f"{track.name}: RMSE over that of {track.reference}", over_strata(track, settings)
        )
    worlds = [one for one in settings if not one.real]
    sizes = [len(one.truth) for one in settings]
    facts = {
        "settings": f"{len(settings):,}",
        "sizes": " to ".join(map(str, sorted({min(sizes), max(sizes)}))),
        "worlds": len(worlds),
        "faulty": sum(bool(one.facts.get("damages")) for one in worlds),
        "real": len(settings) - len(worlds),
        "sources": len({one.source for one in settings if one.real}),
        "none": sum(one.stratum is None for one in settings),
        "near": NEAR,
        "predicts": predicts,
        "hours": f"{_core_seconds(results) / 3600 / CORES:.1f}",
        "cores": CORES,
        "leaders": leaders,
        "table": _whole_table(first[:SHOWN]),
        "shown": SHOWN,
        "count": len(first),
    }
    parts = [opening("leaderboard", **facts), *sections, _part_section(settings)]
    parts += [entries_section(results / "submissions"), *further]
    texts[results / "leaderboard.md"] = "\n\n".join(parts) + "\n"
    return texts


def _core_seconds(results: Path) -> float:
    """Return the seconds that the runs of the board's suites held cores: those of each trial."""
    seconds = 0.0
    for folder in BOARD:
        for run in json.loads((results / folder / "run.json").read_text(encoding="utf-8"))["runs"]:
            jobs = re.search(r"--jobs (\d+)", run["command"])
            cores = int(jobs[1]) if jobs else run["machine"]["cores"]
            seconds += cores * ((run["finished"] or run["started"]) - run["started"])
    return seconds


def _whole_table(rows: Sequence[Whole]) -> str:
    cells = [
        [
            f"{one.rank_low} to {one.rank_high}",
            f"`{one.estimator}`",
            *(f"{one.ratios[stratum]:.2f}" for stratum in STRATA),
            _ratio(TRACKS[FIRST], one.estimator, one.mean, one.low, one.high),
            f"{one.worst:.2f}",
        ]
        for one in rows
    ]
    head = ["ranks", "estimator", *STRATA, "equal weights", "worst"]
    return table(head, cells, "llr", tight=True)


def _ratio(track: Track, estimator: str, ratio: float, low: float, high: float) -> str:
    """Return an error over the reference's with its interval; the reference's own needs none."""
    if estimator == track.reference:
        return "1 (reference)"
    return f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _stratum(stratum: str, settings: Sequence[FieldSetting]) -> str:
    """Return the section of a stratum: a folded table a track."""
    parts = []
    for number, track in enumerate(TRACKS, 1):
        part = in_strata(track, settings)[stratum]
        lines = [line for line in board_of(track, part) if line.rank is not None]
        sources = len({one.source for one in part})
        title = f"{track.name} ({len(part)}, {sources} sources)"
        body = _board_table(track, lines, part)
        if stratum == next(iter(STRATA)):
            body += f"\n\n![{track.name}](figures/leaderboard-{number}.svg)"
        parts.append(_folded(title, body))
    text = f"## {stratum[0].upper()}{stratum[1:]}\n\nLogs whose R2 is {LIMITS[stratum]}."
    return "\n\n".join([text, *parts])


def by_kind(
    track: Track, settings: Sequence[FieldSetting], estimator: str
) -> tuple[Line | None, Line | None]:
    """Return an estimator's lines on drawn worlds, and on tables and trials; None without any."""
    kinds = ([one for one in settings if one.real is real] for real in (False, True))
    drawn_worlds, tables = (line_of(track, kind, estimator) if kind else None for kind in kinds)
    return drawn_worlds, tables


def ratio_of(line: Line | None) -> str:
    """Return a line's error over the reference's."""
    return f"{line.ratio:.2f}" if line else "–"


def _board_table(track: Track, lines: Sequence[Line], settings: Sequence[FieldSetting]) -> str:
    rows = [
        [
            "–" if line.rank is None else f"{line.rank_low} to {line.rank_high}",
            f"`{line.estimator}`",
            _ratio(track, line.estimator, line.ratio, line.low, line.high),
            *map(ratio_of, by_kind(track, settings, line.estimator)),
            f"{line.median:.2f}",
            f"{line.ninth:.2f}",
            f"{line.near:.0%}",
            f"{line.failures:.1%}",
            "–" if line.coverage is None else f"{line.coverage:.0%}",
            f"{line.seconds:.2f}" if line.seconds >= 0.005 else "< .01",
        ]
        for line in lines
    ]
    head = [
        "ranks",
        "estimator",
        f"over `{track.reference}`",
        "worlds",
        "tables",
        "median",
        "90 %",
        "near",
        "fails",
        "coverage",
    ]
    return table([*head, "s"], rows, "llr", tight=True)


def _part_section(settings: Sequence[FieldSetting]) -> str:
    """Return the estimators that ran on a part of the settings, beside the others on the same."""
    track = TRACKS[FIRST]
    inside = [one for one in settings if track.holds(one)]
    part = [line.estimator for line in board_of(track, inside) if line.rank is None]
    same = [one for one in inside if all(name in one.answers for name in part)]
    lines = board_of(track, same)
    text = opening("leaderboard part", part=", ".join(f"`{name}`" for name in part), n=len(same))
    return f"{text}\n\n{_folded('Table', _board_table(track, lines, same))}"


def drawn(title: str, lines: Sequence[Whole]) -> str:
    """Return a forest plot as SVG: means of the strata with intervals on a logarithmic axis."""
    shown = lines
    left, width, step, top = 170, 430, 16, 40
    least = np.log(min(0.5, *(line.low for line in shown)))
    most = np.log(min(8.0, max(2.0, *(line.high for line in shown))))

    def place(ratio: float) -> float:
        at = (np.log(ratio) - least) / (most - least)
        return float(left + width * min(max(at, 0.0), 1.0))

    height = top + step * len(shown) + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" '
        f'width="{left + width + 30}" role="img"><title>{html.escape(title)}</title>'
        "<style>text{font:11px sans-serif;fill:#57606a}.t{text-anchor:middle}.n{text-anchor:end}"
        ".g{stroke:#d8dee4}.e{stroke:#1e6996;fill:#1e6996;stroke-width:1.5}</style>"
        '<rect width="100%" height="100%" fill="#fff"/>'
    )
    parts = [head]
    for tick in (0.25, 0.5, 0.7, 1, 1.4, 2, 4, 8):
        if least <= np.log(tick) <= most:
            at = place(tick)
            parts.append(f'<path class="g" d="M{at:.1f} {top - 12}V{height - 8}"/>')
            parts.append(f'<text class="t" x="{at:.1f}" y="{top - 18}">{tick:g}</text>')
    for row, line in enumerate(shown):
        y = top + step * row
        ends = place(line.low), place(line.mean), place(line.high)
        parts.append(
            f'<text class="n" x="{left - 10}" y="{y + 4}">{html.escape(line.estimator)}</text>'
        )
        parts.append(
            f'<g class="e"><path d="M{ends[0]:.1f} {y}H{ends[2]:.1f}"/>'
            f'<circle cx="{ends[1]:.1f}" cy="{y}" r="3"/></g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
