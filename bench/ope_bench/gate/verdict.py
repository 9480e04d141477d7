"""The words of the gate: verdicts, the rules they are given by, and a row's judgement."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ope_bench.gate.pairing import PairedRow

__all__ = ["Judgement", "Rules", "Verdict"]


class Verdict(enum.StrEnum):
    """What became of a row.

    On the baseline's own data a row that changed without harm has *drifted*; on fresh data
    every number differs, and a row that chance explains is *alike*.
    """

    SAME = "same"
    ALIKE = "alike"
    DRIFTED = "drifted"
    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    FAILED = "failed"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"

    @property
    def mark(self) -> str:
        """One letter for tables."""
        return _MARKS[self]

    @property
    def fails(self) -> bool:
        """Whether the gate closes on it."""
        return self in (Verdict.WORSE, Verdict.FAILED, Verdict.MISSING)


_MARKS = {
    Verdict.SAME: "=",
    Verdict.ALIKE: "=",
    Verdict.DRIFTED: "~",
    Verdict.BETTER: "+",
    Verdict.WORSE: "-",
    Verdict.UNDECIDED: "!",
    Verdict.FAILED: "x",
    Verdict.MISSING: "x",
    Verdict.INCOMPARABLE: "!",
}


@dataclass(frozen=True)
class Rules:
    """By what rows are judged.

    Parameters
    ----------
    margin : growth of the mean squared error that is let pass.
    level : family-wise error of "worse" over all changed rows, and of "better".
    looks : how often rows may be looked at; each look spends its part of the level.
    fresh : before and after are on different data, so nothing is paired.
    symmetric : a comparison rather than a gate: a smaller error needs proof as a larger one does.
    """

    margin: float = 0.02
    level: float = 0.01
    looks: int = 1
    fresh: bool = False
    symmetric: bool = False


@dataclass(frozen=True)
class Judgement:
    """The verdict on one row and what led to it; None where a figure does not exist.

    Parameters
    ----------
    n : replicates compared, of the side that has fewer.
    changed : replicates whose outcome is not bit-identical; 0 on fresh data.
    rmse_before, rmse_after : with failures at the logging average's error.
    ratio, ratio_low, ratio_high : of mean squared errors, after over before; 95 % interval,
        none for heavy-tailed rows.
    standard_error : of the log ratio.
    p : one-sided, of "worse than the margin", adjusted for all changed rows.
    p_better : the same of "better".
    detectable : smallest growth of the mean squared error that would have been called worse
        four times in five.
    improved : share of the replicates with a smaller error now, equal ones counting half;
        none on fresh data.
    """

    row: PairedRow
    verdict: Verdict
    reason: str = ""
    n: int = 0
    changed: int = 0
    rmse_before: float | None = None
    rmse_after: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    standard_error: float | None = None
    p: float | None = None
    p_better: float | None = None
    detectable: float | None = None
    improved: float | None = None
    heavy_tailed: bool = False
