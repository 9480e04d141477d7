"""A claim: what is said, the lines of evidence, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judging.evidence import Line

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
    figure : path below results/paper, if one shows it.
    aside : lines that bear on it without being judged.
    unjudged : why no verdict is possible, if none is.
    """

    title: str
    place: str
    forms: Mapping[str, Sequence[Line]]
    reading: str
    figure: str | None = None
    aside: Sequence[Line] = ()
    unjudged: str | None = None
