"""Findings of a check of the raw files: damage and peculiarities, with their places."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ope_bench import DataFileError

__all__ = ["RawFinding", "RawFindings"]

MOST_PLACES = 5
"""Most places listed for one kind of finding; further ones are counted."""


@dataclass
class RawFinding:
    """One kind of finding in one file.

    Parameters
    ----------
    file : its name.
    what : description.
    damage : whether the file is damaged or only peculiar.
    places : the first places, such as ``line 3`` or ``record 7 (byte 98,352)``.
    times : number of occurrences.
    """

    file: str
    what: str
    damage: bool
    places: list[str] = field(default_factory=list)
    times: int = 0

    def __str__(self) -> str:
        """Format the finding in one line.

        >>> finding = RawFinding("a.gz", "malformed", True, ["line 2", "line 9"], 7)
        >>> str(finding)
        'a.gz, line 2, line 9 and 5 more: malformed'
        """
        more = self.times - len(self.places)
        places = ", ".join(self.places) + (f" and {more:,} more" if more and self.places else "")
        return f"{self.file}{f', {places}' if places else ''}: {self.what}"


class RawFindings:
    """All findings in order of occurrence; equal ones are counted together."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], RawFinding] = {}
        self._details: dict[tuple[str, str], str] = {}

    def add(
        self, file: str, what: str, *, place: str = "", damage: bool = False, detail: str = ""
    ) -> None:
        """Record a finding.

        Parameters
        ----------
        file : its name.
        what : the kind, equal for equal findings.
        place : place in the file.
        damage : whether preparation must stop.
        detail : details of this occurrence, shown if it is the first damage.
        """
        key = file, what
        finding = self._found.setdefault(key, RawFinding(file, what, damage))
        self._details.setdefault(key, detail)
        finding.times += 1
        if place and len(finding.places) < MOST_PLACES:
            finding.places.append(place)

    def all(self) -> list[RawFinding]:
        """Return all findings, damage first."""
        return sorted(self._found.values(), key=lambda finding: not finding.damage)

    def damaged(self, folder: Path) -> DataFileError | None:
        """Return the first damage as an error of one line, or None."""
        for key, finding in self._found.items():
            if finding.damage:
                times = f" (in {finding.times:,} places)" if finding.times > 1 else ""
                detail = f": {self._details[key]}" if self._details[key] else ""
                place = finding.places[0] if finding.places else ""
                advice = "; download the file again, or skip damaged rows with --skip-damaged"
                what = f"{finding.what}{detail}{times}{advice}"
                return DataFileError(folder / finding.file, what, where=place)
        return None
