"""How the ratios of estimators to their track's reference changed, on the same settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ope_bench.boards.tracks import STRATA, SettingAnswers, log_ratios, rule
from ope_bench.report import tables
from ope_bench.report.tables import TableColumn, TextTable, figure
from ope_bench.statistics.ranks import mean_interval


@dataclass(frozen=True)
class TrackChange:
    """The change of an estimator's ratio on a track.

    Parameters
    ----------
    track, stratum, estimator : whose.
    settings, sources : numbers of those in which both sides have it.
    before, after : geometric mean over sources of its RMSE over the reference's.
    change, low, high : after over before, with the 95 % interval of a mean of paired logarithms
        over sources; no interval for one source.
    """

    track: str
    stratum: str
    estimator: str
    settings: int
    sources: int
    before: float
    after: float
    change: float
    low: float | None
    high: float | None

    @property
    def moved(self) -> bool:
        """Whether it is more than rounding."""
        return not math.isclose(self.change, 1.0, rel_tol=1e-9)

    @property
    def words(self) -> str:
        """The change with its interval: ``x1.02 (x1.01 to x1.03)``."""
        middle, *ends = (f"x{figure(one)}" for one in (self.change, self.low, self.high))
        return f"{middle} ({' to '.join(ends)})" if self.low is not None else middle


def track_changes(
    before: Sequence[SettingAnswers], after: Sequence[SettingAnswers]
) -> tuple[TrackChange, ...]:
    """Return the changes on each track and stratum, of all estimators that both sides have.

    Settings are paired by environment and data sets. Strata are those of the first side, where it
    knows signals: a baseline does not.
    """
    found: list[TrackChange] = []
    others = {one.key: one for one in after}
    pairs = [(one, others[one.key]) for one in before if one.key in others]
    for track in rule().tracks:
        inside = [
            pair
            for pair in pairs
            if all(track.holds(one) and track.reference in one.answers for one in pair)
        ]
        for stratum in ("all", *STRATA):
            part = [x for x in inside if stratum in ("all", x[0].stratum or x[1].stratum)]
            names = track.estimators([one for one, _ in part])
            found += [
                change
                for name in names
                if name != track.reference
                for change in _change(track.name, stratum, name, track.reference, part)
            ]
    return tuple(found)


def _change(
    track: str,
    stratum: str,
    name: str,
    reference: str,
    part: Sequence[tuple[SettingAnswers, SettingAnswers]],
) -> Iterator[TrackChange]:
    ran = [pair for pair in part if all(name in one.answers for one in pair)]
    if not ran:
        return
    old, new = (log_ratios([pair[side] for pair in ran], name, reference) for side in (0, 1))
    middle, *ends = mean_interval(new - old)
    low, high = (float(np.exp(end)) if np.isfinite(end) else None for end in ends)
    then, now, change = (float(np.exp(one)) for one in (old.mean(), new.mean(), middle))
    yield TrackChange(track, stratum, name, len(ran), len(old), then, now, change, low, high)


def changes_table(changes: Sequence[TrackChange]) -> TextTable:
    """Make the table of the ratios that changed."""
    heads = ("track", "signal", "estimator", "error then", "now", "change (95 %)", "sources")
    rows = tuple(
        tables.cells(
            *(one.track, one.stratum, one.estimator, figure(one.before), figure(one.after)),
            *(one.words, str(one.sources)),
        )
        for one in changes
        if one.moved
    )
    counts = f"{len(rows)} of {len(changes)} errors over a track's reference changed"
    columns = (
        [TableColumn(key=one, title=one, right="err" in one) for one in heads] if rows else []
    )
    return TextTable(title=counts if changes else "", columns=tuple(columns), rows=rows)


def change_lines(changes: Sequence[TrackChange]) -> Iterator[str]:
    """Yield a sentence on each track and stratum where an error changed, or one that none did."""
    moved = [one for one in changes if one.moved]
    for place in dict.fromkeys((one.track, one.stratum) for one in moved):
        its = [one for one in moved if (one.track, one.stratum) == place]
        told = ", ".join(f"{one.estimator} {one.words}" for one in its)
        yield f"track {place[0]}, signal {place[1]}: {told}"
    if changes and not moved:
        yield f"tracks: none of {len(changes)} errors over a reference's changed"
