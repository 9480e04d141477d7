"""A claim: what is said, the lines of evidence, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judging.line import Line

__all__ = ["Claim"]


@dataclass(frozen=True)
class Claim:
    """One claim and its evidence.

    Parameters
    ----------
    title : the claim by its meaning.
    place : where the paper makes it.
    forms : lines of evidence for each form of the method.
    reading : what the figures mean; no figure of its own.
    figure : path beside the page, if one shows it.
    aside : lines that bear on it without being judged.
    without : a verdict that no line can change, and why.
    surrogate : the data are stand-ins, which qualifies every verdict.
    former : number of the claim on the page before this one, if it had one.
    why : what changed since then, and why.
    """

    title: str
    place: str
    forms: Mapping[str, Sequence[Line]]
    reading: str
    figure: str | None = None
    aside: Sequence[Line] = ()
    without: tuple[Literal["by construction", "not judged"], str] | None = None
    surrogate: bool = False
    former: int | None = None
    why: str = ""
