"""Names of figure files: short, unique, and independent of other figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ope_bench.canonical import digest

__all__ = ["LONGEST", "FigureSubject", "file_names"]

LONGEST = 56
DIGITS = 6


@dataclass(frozen=True)
class FigureSubject:
    """The subject of a figure file.

    Parameters
    ----------
    kind : kind of figure, the beginning of the name.
    label : short description of the subject.
    identity : full description, different for different subjects.
    """

    kind: str
    label: str
    identity: str


def file_names(subjects: Sequence[FigureSubject]) -> list[str]:
    """Return a file name for each subject, without a suffix.

    Long labels, and labels that are equal as file names, end in digits of a hash of the identity.

    >>> ten, hundred = (FigureSubject("cdf", f"toy n_actions={n}", f"{n}") for n in (10, 100))
    >>> file_names([hundred, ten])
    ['cdf-toy-n-actions-100', 'cdf-toy-n-actions-10']
    """
    plain = [_plain(f"{one.kind} {one.label}") for one in subjects]
    times = Counter(plain)
    return [
        name
        if times[name] == 1 and len(name) <= LONGEST
        else f"{_cut(name)}-{digest(one.identity)[:DIGITS]}"
        for name, one in zip(plain, subjects, strict=True)
    ]


def _plain(words: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.")


def _cut(name: str) -> str:
    """Cut a name after whole words, with room for the digits."""
    room = LONGEST - DIGITS - 1
    return name if len(name) <= room else name[: room + 1].rpartition("-")[0] or name[:room]
