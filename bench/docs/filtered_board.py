"""The leaderboard's filters: a table for the track, stratum, sources and kind that are chosen."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from committed import BOARD, FIRST, RESULTS, TRACKS, FieldSetting, field
from ope_bench import __version__
from ope_bench.boards.tracks import STRATA, Track, line_of
from plugin_pages import built_in, heading_of, page_name

__all__ = ["boards_of_filters", "filtered_board", "last_trial"]

EVERY = "all"
SOURCES = {EVERY: None, "drawn worlds": False, "tables and trials": True}
"""What stands for a setting's sources, and whether it is real."""

OTHERS = "Other people's packages"
"""The kind of estimators that the project has not."""


def filtered_board() -> str:
    """Return the section: choices, and an empty table that site.js fills from the data in it."""
    boards = list(boards_of_filters())
    kinds = {plugin.id: heading_of(plugin)[0] for plugin in built_in("estimator")}
    names = sorted({row[0] for board in boards for row in board["rows"]})
    told: dict[str, Any] = {
        "boards": boards,
        "kinds": {name: kinds.get(name, OTHERS) for name in names},
        "pages": {name: page_name(name) for name in names if name in kinds},
    }
    choices = {
        "may know": [track.name for track in TRACKS],
        "signal": [*STRATA],
        "settings": list(SOURCES),
        "kind": [EVERY, *sorted(set(told["kinds"].values()))],
    }
    selects = "".join(
        f'<label>{name}<select name="{name}">'
        + "".join(
            f"<option{' selected' * (one == TRACKS[FIRST].name)}>{html.escape(one)}</option>"
            for one in options
        )
        + "</select></label>"
        for name, options in choices.items()
    )
    # A "<" within a script could end it.
    data = json.dumps(told, separators=(",", ":")).replace("<", "\\u003c")
    return (
        "## Choose what is compared\n\n"
        f'<div class="filters">{selects}</div>\n'
        '<p class="chosen" aria-live="polite">This table needs JavaScript.</p>\n'
        '<div class="pst-scrollable-table-container">'
        '<table class="table filtered"></table></div>\n'
        f'<script type="application/json" id="filtered-board">{data}</script>\n\n'
        "Error: RMSE over the reference's, geometric mean over sources, 95 %. Which ranks the "
        "data leave open, only the tables below say. "
        f"Last trial {last_trial()}; ope-bench {__version__}.\n\n"
    )


def last_trial() -> str:
    """Return the day on which the newest run of the board's suites ended."""
    ends = [
        run["finished"] or run["started"]  # a run that was killed has no end
        for folder in BOARD
        for run in json.loads((RESULTS / folder / "run.json").read_text(encoding="utf-8"))["runs"]
    ]
    return datetime.fromtimestamp(max(ends), UTC).date().isoformat()


def boards_of_filters() -> Iterator[dict[str, Any]]:
    """Yield the boards that have settings: of each track, stratum and kind of sources."""
    for track in TRACKS:
        inside = [one for one in field() if track.holds(one) and track.reference in one.answers]
        for stratum in STRATA:
            for sources, real in SOURCES.items():
                part = [
                    one for one in inside if stratum == one.stratum and real in (None, one.real)
                ]
                if part:
                    yield {
                        "may know": track.name,
                        "signal": stratum,
                        "settings": sources,
                        "reference": track.reference,
                        "counts": [len(part), len({one.source for one in part})],
                        "rows": _rows(track, part),
                    }


def _rows(track: Track, settings: Sequence[FieldSetting]) -> list[list[Any]]:
    """Return name, error, its interval, 90 %, share of failures and coverage of each estimator."""
    lines = [line_of(track, settings, name) for name in track.estimators(settings)]
    whole = [line for line in lines if line.settings == len(settings)]
    return [
        [
            line.estimator,
            *(
                round(one, 3) if math.isfinite(one) else None
                for one in (line.ratio, line.low, line.high)
            ),
            round(line.ninth, 3),
            round(line.failures, 3),
            None if line.coverage is None else round(line.coverage, 2),
        ]
        for line in sorted(whole, key=lambda one: (one.ratio, one.estimator))
    ]
