"""Entries of others: their figures on fresh seeds, first and latest, and how often they tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judging.pages.page import opening, table
from ope_bench.gate.submission import Attempt, read_attempts, read_facts

SAME = 1.96
"""Standard errors within which two entries, compared unpaired, share a rank."""

MOST_FAILURES = 0.5
"""Share of data sets on which a ranked entry may fail."""

FAILS = "fails on most data sets"

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One estimator of a submission.

    Parameters
    ----------
    name : of the submission.
    estimator : its selector.
    first, latest : figures of its first and latest run on fresh seeds; of its own report without
        one.
    since : when its first run began; empty without one.
    tries : runs on fresh seeds, those that were not finished among them.
    marks : as ``ope-bench verify`` gives them.
    likeness : what only the same answers on the public seeds have.
    alike : further submissions with the same answers.
    rank : within its track; None where it has none.
    """

    name: str
    estimator: str
    first: Figures
    latest: Figures
    since: str
    tries: int
    marks: tuple[str, ...]
    likeness: tuple[Any, ...]
    alike: int = 0
    rank: int | None = None

    @property
    def track(self) -> str:
        """The track of its figures."""
        return str(self.latest["track"])

    @property
    def ranked(self) -> bool:
        """Whether it competes: verified, and without any other mark."""
        return self.marks == ("verified",)


def entries_of(home: Path) -> list[Entry]:
    """Return the entries of a folder of submissions, by track, best first.

    Submissions with the same answers are one line: that of the first to try. Equal figures stand
    in the order in which they came; no name decides anything.
    """
    attempts = read_attempts(home)
    found: list[Entry] = []
    for folder in sorted(one.parent for one in home.glob("*/submission.yaml")):
        found += _entries(folder, [one for one in attempts if one.name == folder.name])
    kept: dict[tuple[Any, ...], Entry] = {}
    for one in sorted(found, key=lambda one: (not one.since, one.since)):
        key = one.likeness, one.marks
        same = kept.get(key)
        kept[key] = replace(same, alike=same.alike + 1) if same else one
    order = sorted(
        kept.values(),
        key=lambda one: (one.track, not one.ranked, one.latest["ratio"], one.since),
    )
    return _ranked(order)


def _entries(folder: Path, attempts: Sequence[Attempt]) -> list[Entry]:
    own = [vars(one) for one in read_facts(folder / "trials.parquet").figures]
    done = [one for one in attempts if one.figures]
    runs = [[vars(one) for one in run.figures or ()] for run in done]
    latest = runs[-1] if runs else own
    tries = len({one.secret for one in attempts})
    marks = tuple(done[-1].marks or ()) if done else ("own report",)
    entries = []
    for figures in latest:
        estimator = figures["estimator"]
        known = [one for run in runs for one in run if one["estimator"] == estimator]
        entries.append(
            Entry(
                folder.name,
                estimator,
                known[0] if known else figures,
                figures,
                attempts[0].at if attempts else "",
                tries,
                marks + (FAILS,) * (figures["failures"] > MOST_FAILURES),
                _likeness(own, estimator),
            )
        )
    return entries


def _likeness(own: Sequence[Figures], estimator: str) -> tuple[Any, ...]:
    """Return figures on the public seeds that only the same answers give."""
    names = ("track", "ratio", "log_se", "failures")
    known = ((*(one[name] for name in names),) for one in own if one["estimator"] == estimator)
    return next(known, (estimator,))


def _ranked(entries: Sequence[Entry]) -> list[Entry]:
    """Give ranks: those that cannot be told from the first of their group share one."""
    ranked, heads = [], dict[str, tuple[Entry, int]]()
    for one in entries:
        if one.ranked:
            head, rank = heads.get(one.track, (None, 0))
            if head is None or _apart(head, one):
                heads[one.track] = head, rank = one, rank + 1
            one = replace(one, rank=rank)
        ranked.append(one)
    return ranked


def _apart(one: Entry, other: Entry) -> bool:
    gap = math.log(other.latest["ratio"] / one.latest["ratio"])
    return gap > SAME * math.hypot(one.latest["log_se"], other.latest["log_se"])


def entries_section(home: Path) -> str:
    """Return the section of the leaderboard."""
    entries = entries_of(home)
    rows = [
        [
            "–" if one.rank is None else str(one.rank),
            f"[`{one.estimator}`](submissions/{one.name}/submission.yaml)"
            + (f" and {one.alike} with the same answers" if one.alike else ""),
            one.track,
            f"{one.first['ratio']:.2f}",
            f"{one.latest['ratio']:.2f} ({one.latest['low']:.2f} to {one.latest['high']:.2f})",
            str(one.tries),
            f"{one.latest['failures']:.1%}",
            ", ".join(one.marks),
        ]
        for one in entries
    ]
    head = ["rank", "entry", "track", "first", "latest", "tries", "fails", "marks"]
    body = table(head, rows, "lll", tight=True) if rows else "Be the first."
    return f"{opening('entries')}\n\n{body}"
