"""Verdicts of the gate, the rules they follow, and the judgement of a row."""

from __future__ import annotations

import enum
from dataclasses import KW_ONLY, dataclass

from ope_bench.gate.pairing import PairedRow

__all__ = ["Judgement", "Rules", "Verdict", "Way"]


class Verdict(enum.StrEnum):
    """Result of the comparison of a row with its baseline.

    On the baseline's own data, a row that changed without getting worse has *drifted*. On fresh
    data every number differs, and a row whose difference chance explains is *alike*.
    """

    SAME = "same"
    INDISTINGUISHABLE = "alike"
    DRIFTED = "drifted"
    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    FAILED = "failed"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"

    @property
    def mark(self) -> str:
        """The character shown in tables."""
        return _MARKS[self]

    @property
    def fails(self) -> bool:
        """Return whether this verdict fails the gate."""
        return self in (Verdict.WORSE, Verdict.FAILED, Verdict.MISSING)


_MARKS = {
    Verdict.SAME: "=",
    Verdict.INDISTINGUISHABLE: "=",
    Verdict.DRIFTED: "~",
    Verdict.BETTER: "+",
    Verdict.WORSE: "-",
    Verdict.UNDECIDED: "!",
    Verdict.FAILED: "x",
    Verdict.MISSING: "x",
    Verdict.INCOMPARABLE: "!",
}


class Way(enum.StrEnum):
    """Ways to compare a row's errors; a row is worse if it is worse in any of them."""

    MEAN_SQUARE = "mean square"
    TYPICAL = "typical error"
    FAILURES = "failures"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules by which rows are judged.

    Parameters
    ----------
    margin : growth of the mean squared error that is tolerated, and of the square of the typical
        error.
    level : family-wise error of "worse" over all tests of all changed rows, and of "better".
    looks : how often rows are tested; each look uses an equal part of the level.
    fresh : before and after are on different data, so nothing is paired.
    symmetric : a comparison, not a gate: a smaller error needs significance as a larger one does.
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
    n : number of replicates compared; the smaller one if the sides differ.
    changed : replicates whose outcome is not bit-identical; 0 on fresh data.
    rmse_before, rmse_after : with failures at the logging average's error.
    ratio, ratio_low, ratio_high : of mean squared errors, after over before; 95 % interval,
        none for heavy-tailed rows.
    typical_ratio : of median absolute errors, after over before.
    standard_error : of the log ratio of mean squared errors.
    p : one-sided, of "worse than the margin", adjusted for all tests of all changed rows; the
        smallest of the row's ways.
    p_mean_square, p_typical : the same of the one way.
    p_better : the same of "better".
    found_by : the ways that show what the verdict says; empty where it rests on no test.
    detectable : smallest growth of the mean squared error that would have been called worse
        four times in five, by the mean square alone.
    improved : share of the replicates with a smaller error now, equal ones counting half;
        none on fresh data.
    """

    row: PairedRow
    verdict: Verdict
    reason: str = ""
    _: KW_ONLY
    n: int = 0
    changed: int = 0
    rmse_before: float | None = None
    rmse_after: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    typical_ratio: float | None = None
    standard_error: float | None = None
    p: float | None = None
    p_mean_square: float | None = None
    p_typical: float | None = None
    p_better: float | None = None
    detectable: float | None = None
    improved: float | None = None
    heavy_tailed: bool = False
    found_by: tuple[Way, ...] = ()
