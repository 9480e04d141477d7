"""A line of evidence, and the rule from lines to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench.statistics.paired import holm

__all__ = ["LEVEL", "Line", "Mark", "Verdict", "figure", "marks", "verdict"]

LEVEL = 0.05

Mark = Literal["+", "−", "?"]
"""For the claim, against it, undecided."""


@dataclass(frozen=True)
class Line:
    """One line of evidence.

    Parameters
    ----------
    what : the comparison, in words: a row of the table.
    where : the setting, or what else its column is called.
    number : figure with its interval.
    p, sign : two-sided p-value and whether the figure lies on the claim's side; for lines judged
        by a test, ratios and slopes.
    decided : for lines judged by an interval: for (True), against (False), undecided (None).
    negligible : the interval excludes every difference on the claim's side that is larger than
        the margin; against the claim whatever the test says.
    typical : judged by signed ranks of absolute errors, not by mean squares.
    contrary : the other of these two tests decides for the other side; nothing is said then.
    counted : whether it is evidence at all; a method that mostly fails is listed only.
    """

    what: str
    where: str
    number: str
    p: float | None = None
    sign: bool = True
    decided: bool | None = None
    negligible: bool = False
    typical: bool = False
    contrary: bool = False
    counted: bool = True


def marks(lines: Sequence[Line]) -> list[Mark | None]:
    """Each line's mark, None for lines that are no evidence; Holm's correction over the tests."""
    tested = [line for line in lines if line.counted and line.p is not None]
    adjusted = holm(np.array([line.p for line in tested], dtype=np.float64))
    significant = {id(line): p < LEVEL for line, p in zip(tested, adjusted, strict=True)}
    return [_mark(line, significant.get(id(line), False)) for line in lines]


def _mark(line: Line, significant: bool) -> Mark | None:
    if not line.counted:
        return None
    if line.contrary:
        return "?"
    decided = line.decided
    if line.negligible:
        decided = False
    elif line.p is not None:
        decided = line.sign if significant else None
    return {True: "+", False: "−", None: "?"}[decided]  # type: ignore[return-value]


@dataclass(frozen=True)
class Verdict:
    """What lines of evidence amount to.

    Parameters
    ----------
    word : the verdict.
    plus, minus, undecided : lines for, against, and neither.
    where : the lines for, in words, where the verdict is "holds where named".
    """

    word: str
    plus: int
    minus: int
    undecided: int
    where: str = ""

    @property
    def counts(self) -> str:
        """The three counts."""
        return f"{self.plus} + · {self.minus} − · {self.undecided} ?"


def verdict(lines: Sequence[Line]) -> Verdict:
    """The rule: from the counts alone."""
    found = marks(lines)
    plus, minus, undecided = (found.count(mark) for mark in ("+", "−", "?"))
    where = ""
    if plus and minus:
        word = "mixed"
    elif plus and undecided:
        word, where = "holds where named", _named(lines, found)
    elif plus:
        word = "holds"
    elif minus:
        word = "refuted"
    else:
        word = "undecided"
    typical = {line.typical for line, mark in zip(lines, found, strict=True) if mark == "+"}
    if word.startswith("holds") and True in typical:
        word += " (typical errors)" if typical == {True} else " (partly typical errors)"
    return Verdict(word, plus, minus, undecided, where)


def _named(lines: Sequence[Line], found: Sequence[Mark | None]) -> str:
    """The lines for the claim: each comparison with its settings."""
    settings: dict[str, list[str]] = {}
    columns: dict[str, int] = {}
    for line, mark in zip(lines, found, strict=True):
        columns[line.what] = columns.get(line.what, 0) + 1
        if mark == "+":
            settings.setdefault(line.what, []).append(line.where)
    return "; ".join(
        f"{what} ({_columns(where, whole=len(where) == columns[what])})"
        for what, where in settings.items()
    )


def _columns(where: Sequence[str], *, whole: bool) -> str:
    """Settings in words; ``axis = a`` and ``axis = b`` are "a, b", all of them "every axis"."""
    axes = {one.partition(" = ")[0] for one in where}
    if len(axes) > 1 or " = " not in where[0]:
        return ", ".join(where)
    (axis,) = axes
    if whole and len(where) > 1:
        return f"every {axis}"
    return ", ".join(one.removeprefix(f"{axis} = ") for one in where)


def figure(value: float, low: float | None = None, high: float | None = None) -> str:
    """A figure with its interval, three significant digits."""
    if low is None or high is None:
        return f"{value:.3g}"
    return f"{value:.3g} [{low:.3g}, {high:.3g}]"
