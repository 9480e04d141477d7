"""A line of evidence, and the rule from lines to a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench.statistics.paired_tests import holm

LEVEL = 0.05

MOSTLY = 0.8
"""Share of the decided lines above which a claim is said to hold, or not to hold, mostly."""

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
    counted : whether it is evidence at all; an estimator that mostly fails is listed only.
    inside : whether the setting is one that the claim's source assumes.
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
    inside: bool = True


def marks(lines: Sequence[Line]) -> list[Mark | None]:
    """Each line's mark, None for lines that are no evidence; Holm's correction over the tests."""
    tested = [line for line in lines if line.counted and line.p is not None]
    adjusted = holm(np.array([line.p for line in tested], dtype=np.float64))
    significant = {id(line): p < LEVEL for line, p in zip(tested, adjusted, strict=True)}
    found: list[Mark | None] = []
    for line in lines:
        decided = line.decided
        if line.negligible:
            decided = False
        elif line.p is not None:
            decided = line.sign if significant.get(id(line)) else None
        if line.contrary:
            decided = None
        mark: Mark = "?" if decided is None else "+" if decided else "−"
        found.append(mark if line.counted else None)
    return found


@dataclass(frozen=True)
class Verdict:
    """What lines of evidence amount to.

    Parameters
    ----------
    plus, minus, undecided : lines for, against, and neither.
    typical : ``""``, or that all or some of the lines for are about typical errors.
    where : the lines for, in words, where the verdict is "holds where named".
    """

    plus: int
    minus: int
    undecided: int
    typical: str = ""
    where: str = ""

    @property
    def bare(self) -> str:
        """The verdict's word, from the counts alone."""
        if not self.plus + self.minus:
            return "undecided"
        if not self.minus:
            return "holds where named" if self.undecided else "holds"
        if not self.plus:
            return "refuted"
        share = self.plus / (self.plus + self.minus)
        if share > MOSTLY:
            return "mostly for"
        return "mostly against" if share < 1 - MOSTLY else "split"

    @property
    def word(self) -> str:
        """The verdict's word, and whether it is about typical errors."""
        return f"{self.bare} {self.typical}" if self.typical else self.bare

    @property
    def counts(self) -> str:
        """The three counts."""
        return f"{self.plus}/{self.minus}/{self.undecided}"


def verdict(lines: Sequence[Line]) -> Verdict:
    """The rule: from the counts alone."""
    found = marks(lines)
    plus, minus, undecided = (found.count(mark) for mark in ("+", "−", "?"))
    kinds = {line.typical for line, mark in zip(lines, found, strict=True) if mark == "+"}
    typical = ""
    if not minus and True in kinds:
        typical = "(typical errors)" if kinds == {True} else "(partly typical errors)"
    where = _named(lines, found) if plus and undecided and not minus else ""
    return Verdict(plus, minus, undecided, typical, where)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on all forms of a claim: their counts, added."""
    found = list(verdicts)
    return Verdict(*(sum(getattr(v, name) for v in found) for name in _COUNTS))


_COUNTS = ("plus", "minus", "undecided")


def _named(lines: Sequence[Line], found: Sequence[Mark | None]) -> str:
    """The lines for the claim: each comparison with its settings.

    ``axis = a`` and ``axis = b`` are "a, b", all of them "every axis".
    """
    named = []
    marked = list(zip(lines, found, strict=True))
    for what in dict.fromkeys(line.what for line, mark in marked if mark == "+"):
        own = [(line.where, mark) for line, mark in marked if line.what == what]
        where = [place for place, mark in own if mark == "+"]
        axis, *others = {place.partition(" = ")[0] for place in where}
        if others or " = " not in where[0]:
            told = ", ".join(where)
        elif len(where) == len(own) > 1:
            told = f"every {axis}"
        else:
            told = ", ".join(place.removeprefix(f"{axis} = ") for place in where)
        named.append(f"{what} ({told})")
    return "; ".join(named)


def figure(value: float, low: float | None = None, high: float | None = None) -> str:
    """A figure with its interval, three significant digits."""
    if low is None or high is None:
        return f"{value:.3g}"
    return f"{value:.3g} [{low:.3g}, {high:.3g}]"
