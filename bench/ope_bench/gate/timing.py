"""Seconds then and now, against a noise floor measured now.

Times of another machine compare nothing, and times of the same machine jitter. So each row is
timed twice in alternation (A/A): how far the two differ tells what a difference means here. A row
that is slower by more than that is timed once more, in alternation with the other suspects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ope_bench.gate.pairing import PairedRow
from ope_bench.records import Status, Trial, TrialRecord

__all__ = ["TimeJudgement", "TimeReport", "comparable_machines", "compare_times"]

REPLICATES = 5
"""Replicates timed a row."""

SMALLEST_FLOOR = 0.10
"""Differences below 10 % are never called slower, however quiet the machine is."""

Measure = Callable[[Sequence[Trial]], Iterable[TrialRecord]]
"""Runs trials alone, one after the other, whatever is stored."""


@dataclass(frozen=True)
class TimeJudgement:
    """One row's seconds.

    Parameters
    ----------
    before, after : median seconds of fit and estimate.
    ratio : after over before.
    floor : ratio up to which a difference is noise, from the A/A passes.
    slower : beyond the floor, and again so in the re-run.
    """

    row: PairedRow
    before: float
    after: float
    ratio: float
    floor: float
    slower: bool


@dataclass(frozen=True)
class TimeReport:
    """All rows that could be timed, or why none could."""

    rows: tuple[TimeJudgement, ...] = ()
    notice: str = ""

    @property
    def slower(self) -> bool:
        """Whether any row is."""
        return any(row.slower for row in self.rows)


NEUTRAL = ("git", "plugins", "memory_bytes")
"""Machine facts that may differ: the code is what the gate is about, and a machine's memory in
bytes changes from boot to boot.
"""


def comparable_machines(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Why times cannot be compared, in words; empty where they can."""
    names = sorted((set(before) | set(now)) - set(NEUTRAL))
    differing = [name for name in names if before.get(name) != now.get(name)]
    if not before:
        return "the baseline holds no machine facts"
    if differing:
        return f"the baseline was made on another machine or software ({', '.join(differing)})"
    return ""


def compare_times(rows: Iterable[PairedRow], measure: Measure) -> TimeReport:
    """Time the rows that the baseline timed.

    Parameters
    ----------
    rows : paired; those without exclusive baseline times are left out.
    measure : runs trials alone.
    """
    timed: dict[int, tuple[PairedRow, list[Trial], float]] = {}
    for index, row in enumerate(rows):
        usable = [
            (pair.trial, taken)
            for pair in row.pairs
            if pair.trial is not None and (taken := _seconds(pair.before)) is not None
        ][:REPLICATES]
        if usable and not row.incomparable:
            timed[index] = row, [trial for trial, _ in usable], median(s for _, s in usable)
    if not timed:
        return TimeReport(notice="the baseline has no times of trials that ran alone")
    first, second = (_pass(timed, measure) for _ in range(2))
    noise = {
        index: abs(math.log(second[index] / first[index]))
        for index in timed
        if index in first and index in second
    }
    if not noise:
        return TimeReport(notice="no trial could be timed")
    typical = median(noise.values())
    found = {}
    for index, own in noise.items():
        row, _, before = timed[index]
        after = math.sqrt(first[index] * second[index])
        floor = math.exp(max(math.log1p(SMALLEST_FLOOR), 3 * typical, own))
        found[index] = TimeJudgement(row, before, after, after / before, floor, False)
    suspects = {i: timed[i] for i, one in found.items() if one.ratio > one.floor}
    again = _pass(suspects, measure) if suspects else {}
    judged = [
        TimeJudgement(
            one.row,
            one.before,
            one.after,
            one.ratio,
            one.floor,
            index in again and again[index] / one.before > one.floor,
        )
        for index, one in found.items()
    ]
    return TimeReport(tuple(judged))


def _pass(
    timed: Mapping[int, tuple[PairedRow, list[Trial], float]], measure: Measure
) -> dict[int, float]:
    """Median seconds by row, rows taking turns so that a slow spell hits all alike."""
    owner: dict[str, int] = {}
    turns: list[Trial] = []
    for turn in range(REPLICATES):
        for index, (_, trials, _) in timed.items():
            if turn < len(trials):
                owner[trials[turn].key] = index
                turns.append(trials[turn])
    taken: dict[int, list[float]] = {}
    for record in measure(turns):
        seconds = _seconds(record)
        if seconds is not None and seconds > 0:
            taken.setdefault(owner[record.key], []).append(seconds)
    return {index: median(values) for index, values in taken.items()}


def _seconds(record: TrialRecord) -> float | None:
    if not record.exclusive or record.status is not Status.OK:
        return None
    if record.fit_seconds is None or record.estimate_seconds is None:
        return None
    return record.fit_seconds + record.estimate_seconds
