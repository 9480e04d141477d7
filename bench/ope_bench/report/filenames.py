"""Names of files for what is shown: short, unique, and the same whatever else is there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ope_bench.seeding import digest

__all__ = ["LONGEST", "Subject", "file_names"]

LONGEST = 56
DIGITS = 6


@dataclass(frozen=True)
class Subject:
    """What a file shows.

    Parameters
    ----------
    kind : of file, the beginning of its name.
    label : what it is about, in words.
    identity : what it is about, in full; different where the subject is.
    """

    kind: str
    label: str
    identity: str


def file_names(subjects: Sequence[Subject]) -> list[str]:
    """A name each, without a suffix.

    Labels that are long, or no different once they are written as file names, end in some digits
    of a hash of the identity.

    >>> ten, hundred = (Subject("cdf", f"toy n_actions={n}", f"{n}") for n in (10, 100))
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
    """The name's first words, as many as leave room for the digits."""
    room = LONGEST - DIGITS - 1
    return name if len(name) <= room else name[: room + 1].rpartition("-")[0] or name[:room]
