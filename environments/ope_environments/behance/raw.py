"""Read the three published files in bounded memory."""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from ope_bench import DataFileError, IntArray, UnavailableError
from ope_environments.behance.findings import RawFindings
from ope_environments.behance.layout import (
    APPRECIATES,
    FEATURES,
    FILES,
    OWNERS,
    RECORD,
    RECORD_BYTES,
    WHERE_TO_GET,
    WIDTH,
)

__all__ = [
    "FeatureFile",
    "Ids",
    "Pairs",
    "feature_file",
    "read_appreciates",
    "read_owners",
    "require_files",
]

Ids = npt.NDArray[np.bytes_]
"""Item ids, (n,) of dtype S8: text, because of leading zeros."""

Progress = Callable[[int], None]
"""Called with the number of bytes just read."""

BLOCK = 1 << 20
LONGEST_LINE = 1000
RECORDS_AT_ONCE = 256
_APPRECIATE = re.compile(rb"(\d{1,18})[ \t]+(\d{8})[ \t]+\d{1,18}\s*")
_OWNER = re.compile(rb"(\d{8})[ \t]+(\d{1,18})\s*")
_SHORT_ID = re.compile(rb"\s*\d+[ \t]+\d+([ \t]+\d+)?\s*")


@dataclass(frozen=True)
class Pairs:
    """Rows of a text file.

    Parameters
    ----------
    user : (n,)
    item : (n,), text
    lines : number of lines in the file.
    """

    user: IntArray
    item: Ids
    lines: int


def require_files(folder: Path) -> None:
    """Raise UnavailableError if the folder or one of the three files is missing."""
    if not folder.is_dir():
        msg = f"{folder} is not a folder; {WHERE_TO_GET}"
        raise UnavailableError(msg)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        msg = f"{folder} has no {', '.join(missing)}; {WHERE_TO_GET}"
        raise UnavailableError(msg)


def read_appreciates(folder: Path, findings: RawFindings, progress: Progress) -> Pairs:
    """Read user and item of every appreciate; malformed lines are reported and skipped."""
    return _read(
        folder / APPRECIATES, _APPRECIATE, "user_id item_id unix_time", findings, progress
    )


def read_owners(folder: Path, findings: RawFindings, progress: Progress) -> Pairs:
    """Read item and creator of every line."""
    return _read(folder / OWNERS, _OWNER, "item_id user_id", findings, progress)


def _read(
    path: Path, pattern: re.Pattern[bytes], form: str, findings: RawFindings, progress: Progress
) -> Pairs:
    item_first = pattern is _OWNER
    users: list[IntArray] = []
    items: list[Ids] = []
    number = 0
    with _opened(path, findings) as stream:
        for lines in _lines(path, stream, progress):
            matches = [pattern.fullmatch(line) for line in lines]
            for offset, match in enumerate(matches, start=number + 1):
                if match is None and lines[offset - number - 1].strip():
                    _malformed(path.name, lines[offset - number - 1], form, offset, findings)
            good = [match.groups() for match in matches if match is not None]
            items.append(np.array([pair[not item_first] for pair in good], dtype="S8"))
            users.append(np.array([int(pair[item_first]) for pair in good], dtype=np.int64))
            number += len(lines)
    if number == 0:
        raise DataFileError(path, f"is empty; expected lines of `{form}`")
    if not sum(map(len, users)):
        raise DataFileError(path, f"no line is `{form}`; is this the right file?", where="line 1")
    return Pairs(np.concatenate(users), np.concatenate(items), number)


def _malformed(name: str, line: bytes, form: str, number: int, findings: RawFindings) -> None:
    what = f"not `{form}`"
    if _SHORT_ID.fullmatch(line):
        what = "an item id is not 8 digits (ids are text: leading zeros must be kept)"
    findings.add(name, what, place=f"line {number:,}", damage=True, detail=repr(line[:40])[1:])


@contextlib.contextmanager
def _opened(path: Path, findings: RawFindings) -> Iterator[IO[bytes]]:
    """Open the unpacked text; browsers and servers may have unpacked a .gz file already."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not packed:
                findings.add(
                    path.name, "is not compressed, though its name ends in .gz; read as plain text"
                )
                yield raw
                return
            with gzip.open(raw) as stream:
                yield cast(IO[bytes], stream)
    except OSError as exc:
        # Includes BadGzipFile, whose message describes the damage.
        raise DataFileError(path, f"cannot be read: {exc}") from exc


def _lines(path: Path, stream: IO[bytes], progress: Progress) -> Iterator[list[bytes]]:
    rest, number = b"", 0
    while True:
        try:
            block = stream.read(BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            what = f"the gzip archive is damaged or truncated ({exc}); download the file again"
            raise DataFileError(path, what, where=f"after line {number:,}") from exc
        progress(len(block))
        lines = (rest + block).split(b"\n")
        rest = lines.pop() if block else b""
        number += len(lines)
        if len(rest) > LONGEST_LINE:
            what = f"longer than {LONGEST_LINE:,} bytes; this is not the published file"
            raise DataFileError(path, what, where=f"line {number + 1:,}")
        if not block and lines and not lines[-1]:
            lines.pop()
        if lines:
            yield lines
        if not block:
            return


class FeatureFile:
    """The binary file of image features, read in runs of records.

    Parameters
    ----------
    path : the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        size = path.stat().st_size
        with path.open("rb") as stream:
            start = stream.read(8)
        if size == 0:
            raise DataFileError(path, f"is empty; expected records of {RECORD_BYTES:,} bytes")
        if start[:2] == b"\x1f\x8b":
            raise DataFileError(path, "is a gzip archive; unpack it, keeping the name")
        self.n_records, self.left_over = divmod(size, RECORD_BYTES)

    def check_size(self, findings: RawFindings) -> None:
        """Report a truncated last record."""
        if self.left_over:
            what = f"the last record has {self.left_over:,} of {RECORD_BYTES:,} bytes"
            place = self.place(self.n_records)
            findings.add(self.path.name, what, place=place, damage=True)
        if self.n_records == 0:
            what = f"has no complete record of {RECORD_BYTES:,} bytes; it has {self.left_over:,}"
            raise DataFileError(self.path, what)

    def place(self, record: int) -> str:
        """Return a record's number, counted from one, and its first byte."""
        return f"record {record + 1:,} (byte {record * RECORD_BYTES:,})"

    def chunks(self, at_once: int = RECORDS_AT_ONCE) -> Iterator[tuple[int, Ids, np.ndarray]]:
        """Yield first record, ids (k,) and features (k, 4096) of consecutive runs of equal length.

        Each run has its own memory map: pages of one map of the whole file would all stay in
        resident memory.
        """
        runs = -(-self.n_records // at_once)
        bounds = np.linspace(0, self.n_records, runs + 1).round().astype(np.int64)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            mapped = np.memmap(
                self.path, RECORD, "r", offset=start * RECORD_BYTES, shape=(stop - start,)
            )
            ids, features = np.array(mapped["id"]), np.ascontiguousarray(mapped["x"])
            del mapped
            yield start, ids, features

    def usable(
        self, start: int, ids: Ids, features: np.ndarray, findings: RawFindings
    ) -> np.ndarray:
        """Return which records of a run have an id and finite features (k,); report the others."""
        digits = np.array([len(one) == 8 and one.isdigit() for one in ids.tolist()], dtype=bool)
        # The sum of a row detects NaN and infinities without a second array of the run's size.
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(features.sum(axis=1, dtype=np.float64))
        name = self.path.name
        for k in np.flatnonzero(~digits).tolist():
            what = "an item id is not 8 digits (misaligned records, or not the published file)"
            place, detail = self.place(start + k), repr(bytes(ids[k]))[1:]
            findings.add(name, what, place=place, damage=True, detail=detail)
        for k in np.flatnonzero(digits & ~finite).tolist():
            column = int(np.argmin(np.isfinite(features[k])))
            detail = f"item {ids[k].decode()}, feature {column + 1} of {WIDTH:,}"
            what = "a feature is not a finite number"
            findings.add(name, what, place=self.place(start + k), damage=True, detail=detail)
        usable: np.ndarray = digits & finite
        return usable


def feature_file(folder: Path) -> FeatureFile:
    """Open the feature file of a folder."""
    return FeatureFile(folder / FEATURES)
