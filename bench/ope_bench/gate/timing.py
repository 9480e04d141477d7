"""Compare seconds with the baseline's, against a noise floor measured now.

Times of another machine cannot be compared, and times of the same machine vary. So each row is
timed twice in alternation (A/A); the difference of the two is the noise floor. A row slower by
more than that is timed once more, in alternation with the other slow rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from ope_bench.gate.pairing import PairedRow
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

__all__ = ["TimeJudgement", "TimeReport", "comparable_machines", "compare_times"]

REPLICATES = 5
"""Number of replicates timed per row."""

SMALLEST_FLOOR = 0.10
"""Differences below 10 % are never called slower."""

Measure = Callable[[Sequence[Trial]], Iterable[TrialRecord]]
"""Runs trials alone, one after the other, ignoring stored outcomes."""


@dataclass(frozen=True, kw_only=True)
class TimeJudgement:
    """Comparison of one row's seconds.

    Parameters
    ----------
    before, after : median seconds of fit and estimate.
    ratio : after over before.
    floor : largest ratio that counts as noise, from the A/A passes.
    slower : whether the ratio exceeds the floor, and again in the repetition.
    """

    row: PairedRow
    before: float
    after: float
    ratio: float
    floor: float
    slower: bool


@dataclass(frozen=True)
class TimeReport:
    """The rows that could be timed, or why none could."""

    rows: tuple[TimeJudgement, ...] = ()
    notice: str = ""

    @property
    def slower(self) -> bool:
        """Return whether any row is slower."""
        return any(row.slower for row in self.rows)


NEUTRAL = ("git", "plugins", "memory_bytes")
"""Machine facts that may differ: the gate compares code, and the size of memory in bytes changes
from boot to boot.
"""


def comparable_machines(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say why times cannot be compared; empty if they can."""
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
    rows : paired rows; those without exclusive times in the baseline are skipped.
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
    judgements = {}
    for index, own in noise.items():
        row, _, before = timed[index]
        after = math.sqrt(first[index] * second[index])
        floor = math.exp(max(math.log1p(SMALLEST_FLOOR), 3 * typical, own))
        judgements[index] = TimeJudgement(
            row=row, before=before, after=after, ratio=after / before, floor=floor, slower=False
        )
    suspects = {i: timed[i] for i, one in judgements.items() if one.ratio > one.floor}
    again = _pass(suspects, measure) if suspects else {}
    judged = [
        replace(one, slower=index in again and again[index] / one.before > one.floor)
        for index, one in judgements.items()
    ]
    return TimeReport(tuple(judged))


def _pass(
    timed: Mapping[int, tuple[PairedRow, list[Trial], float]], measure: Measure
) -> dict[int, float]:
    """Return median seconds by row; rows take turns, so that a slow period affects all rows."""
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
