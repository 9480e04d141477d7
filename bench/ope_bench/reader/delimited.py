"""Delimited text: read by Polars as text, with widths, quotes and lines by Python's `csv`.

Polars looks neither at the number of fields of a short row nor at blank lines, and names no place;
it refuses what `csv` reads, such as a quote within a field. So `csv` goes over a file once where
its last column lacks a value, a value holds a quote, Polars refuses it or finds no row, or a
carriage return stands alone; and where both differ, the columns are those of `csv`.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import itertools
import lzma
import os
import sys
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TextIO

import psutil

from ope_bench.base.files import temporary_folder
from ope_bench.reader.library import LibraryRefusalError, guarded, library
from ope_bench.reader.mistakes import (
    Columns,
    DataFileError,
    column_indices,
    wanted_columns,
)
from ope_bench.reader.text import EXACT, FIRST_ROWS, TextForm, settle

FIRST_LINE = 1 << 20
"""Most characters of a line from which the format of a file is recognized."""

LONGEST_HEADER = 1 << 22
"""Most characters of a header."""

ROWS_AT_ONCE = 1 << 15
_CHUNK = 1 << 24
_COMPRESSED: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
_ZSTD = b"\x28\xb5\x2f\xfd"
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

TextRow = tuple[int, list[str]]
"""The number of the line where a row begins, and its fields."""

csv.field_size_limit(sys.maxsize)


def opened(path: Path, *, whole: bool = False) -> Any:
    """Open what a file holds, decompressed, as bytes.

    Parameters
    ----------
    path : the file.
    whole : whether all of it will be in memory, not only a line.

    Raises
    ------
    DataFileError : it is compressed, and has a line, or is a whole, of no table.
    """
    with open(path, "rb") as stream:
        start = stream.read(6)
    for magic, how in _COMPRESSED.items():
        if start.startswith(magic):
            return io.BufferedReader(_Bounded(path, how(path, "rb"), whole=whole), _CHUNK >> 4)
    if start.startswith(_ZSTD):
        _require_room(path, zstd_bytes(path))
        found = io.BytesIO()
        with guarded(path):
            library().read_lines(path).write_csv(found, include_header=False, quote_style="never")
        found.seek(0)
        return found
    return open(path, "rb")


_COPIES = 8
"""Memory that a text takes at most, over its size, while it is read."""


def _require_room(path: Path, size: int) -> None:
    free = psutil.virtual_memory().available
    if _COPIES * size > free:
        room = f"{_COPIES * size >> 20:,} MiB of memory; {free >> 20:,} are free"
        raise DataFileError(
            path, f"has {size >> 20:,} MiB or more, decompressed, which need {room}"
        )


class _Bounded(io.RawIOBase):
    """A decompressed file; a few of its bytes may be gigabytes, which are refused."""

    def __init__(self, path: Path, stream: Any, *, whole: bool) -> None:
        self._path, self._stream, self._whole = path, stream, whole
        self._size = self._line = self._lines = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._size = self._line = self._lines = 0
        return int(self._stream.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read1(len(buffer))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as exc:
            what = "its compressed data end early or are damaged here; copy or compress it again"
            raise DataFileError(self._path, what, where=f"line {self._lines + 1:,}") from exc
        self._size += len(data)
        self._lines += data.count(b"\n")
        ended = max(data.rfind(b"\n"), data.rfind(b"\r"))
        self._line = len(data) - 1 - ended + (self._line if ended < 0 else 0)
        if self._whole:
            _require_room(self._path, self._size)
        elif self._line > _CHUNK:
            raise _too_long(self._path, "a line", _CHUNK)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def zstd_bytes(path: Path) -> int:
    """Return how many bytes a file of Zstandard has at most, by the headers of its blocks.

    The numbers are those of RFC 8878: a frame has a header and blocks; a compressed block gives
    128 KiB at most.
    """
    size = 0
    with open(path, "rb") as file:
        while len(start := file.read(4)) == 4:
            if start != _ZSTD:  # a frame to skip
                file.seek(int.from_bytes(file.read(4), "little"), os.SEEK_CUR)
                continue
            flags = file.read(1)[0]
            alone, content = flags >> 5 & 1, (0, 2, 4, 8)[flags >> 6]
            file.seek((not alone) + (0, 1, 2, 4)[flags & 3] + (content or alone), os.SEEK_CUR)
            last = False
            while not last and len(head := file.read(3)) == 3:
                number = int.from_bytes(head, "little")
                last, kind, length = bool(number & 1), number >> 1 & 3, number >> 3
                size += 1 << 17 if kind == 2 else length
                file.seek(1 if kind == 1 else length, os.SEEK_CUR)
            file.seek(4 * (flags >> 2 & 1), os.SEEK_CUR)
    return size


@contextlib.contextmanager
def opened_text(path: Path, form: TextForm, *, whole: bool = False) -> Iterator[TextIO]:
    """Open a text file, decompressed and decoded; line ends stay as they are."""
    with damaged(path), opened(path, whole=whole) as stream:
        buffered = io.BufferedReader(stream) if not hasattr(stream, "peek") else stream
        marked = _marked(buffered.peek(3)[:3])
        encoding = form.encoding or marked or "utf-8"
        if marked == "utf-8-sig" and _is_utf8(encoding):
            encoding = marked
        try:
            text = io.TextIOWrapper(buffered, encoding=encoding, newline="")
        except LookupError as exc:
            what = f"`encoding`: Python knows none called {encoding!r}, such as latin-1 or cp1252"
            raise DataFileError(path, what) from exc
        try:
            yield text
        except UnicodeError as exc:
            raise _wrongly_encoded(path, encoding) from exc


def _marked(start: bytes) -> str | None:
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8")


@contextlib.contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn the errors of a file that cannot be read into one line."""
    try:
        yield
    except (LibraryRefusalError, OSError) as exc:
        raise DataFileError(path, f"cannot be read: {getattr(exc, 'strerror', 0) or exc}") from exc


def _wrongly_encoded(path: Path, encoding: str) -> DataFileError:
    """Locate the wrongly encoded line, which buffered decoding does not report."""
    shown = "UTF-8" if encoding.startswith("utf-8") else encoding
    cure = f"save it as {shown}, or give `encoding` (Excel often writes cp1252)"
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as exc:
                byte = f"byte {line[exc.start]:#04x} at column {exc.start + 1}"
                return DataFileError(
                    path, f"{byte} is not {shown}; {cure}", where=f"line {number:,}"
                )
            except UnicodeError:
                break
    return DataFileError(path, f"is not {shown}; {cure}")


def text_rows(path: Path, form: TextForm) -> Generator[TextRow, None, None]:
    """Yield the rows of a delimited file that are not blank, the header first.

    Raises
    ------
    DataFileError : the file is empty, wrongly encoded or wrongly quoted.
    """
    number = 0
    with opened_text(path, form) as stream:
        first = stream.readline(FIRST_LINE)
        if not first.strip():
            empty = not stream.read(FIRST_LINE).strip()
            what = (
                "is empty; write a header and one row for each decision"
                if empty
                else "starts with a blank line, not a header; take it out"
            )
            raise DataFileError(path, what)
        lines = itertools.chain([first], stream)
        if len(first) == FIRST_LINE and not first.endswith("\n"):
            first += stream.readline(LONGEST_HEADER)
            if len(first) > LONGEST_HEADER:
                raise _too_long(path, "its first line", LONGEST_HEADER)
            lines = itertools.chain([first], stream)
        reader = csv.reader(lines, delimiter=delimiter_of(first, form), strict=True)
        try:
            for fields in reader:
                start, number = number + 1, reader.line_num
                if fields:
                    yield start, fields
        except csv.Error as exc:
            what = f"{exc}; a quote in a quoted field is written twice"
            raise DataFileError(path, what, where=f"line {number + 1:,}") from exc


def delimiter_of(first: str, form: TextForm) -> str:
    """Return the delimiter of a file, given its first line."""
    return form.delimiter or max((",", ";", "\t", "|"), key=first.count)


def full_rows(path: Path, width: int, rows: Iterator[TextRow]) -> Iterator[TextRow]:
    """Yield rows of a width; another one is an error."""
    for line, fields in rows:
        if len(fields) != width:
            what = (
                f"{len(fields)} fields; the header names {width} columns; quote fields that hold "
                "the separator"
            )
            raise DataFileError(path, what, where=f"line {line:,}")
        yield line, fields


def frame_of_rows(rows: Iterator[TextRow], at: dict[str, int]) -> Any:
    """Return columns of texts.

    Parameters
    ----------
    rows : without the header.
    at : the columns wanted, and their places.
    """
    pl = library()
    texts: dict[str, list[Any]] = {name: [pl.Series(name, [], dtype=pl.String)] for name in at}
    while chunk := list(itertools.islice(rows, ROWS_AT_ONCE)):
        for name, place in at.items():
            texts[name].append(
                pl.Series(name, [fields[place] for _, fields in chunk], dtype=pl.String)
            )
    return pl.DataFrame({name: pl.concat(texts.pop(name)) for name in at})


def read_delimited(path: Path, columns: Columns, spelled: frozenset[str], form: TextForm) -> Any:
    """Return the columns of a delimited file with a header, texts and plain numbers.

    Parameters
    ----------
    path : the file, maybe compressed.
    columns : those wanted, all if None.
    spelled, form : as for `settle`.

    Raises
    ------
    DataFileError : the file is damaged, or lacks a column.
    """
    rows = text_rows(path, form)
    with contextlib.closing(rows):
        fields = next(rows)[1]
    with opened_text(path, form) as stream:
        delimiter = delimiter_of(stream.readline(FIRST_LINE), form)
    names = [name.strip() for name in fields]
    at = column_indices(path, names, wanted_columns(path, names, columns))
    with _as_utf8(path, form) as (source, alone):
        # A carriage return that stands alone ends a line for `csv` only.
        found = (
            None
            if alone or len(delimiter.encode()) > 1
            else _by_library(source, fields, delimiter, at, spelled, form)
        )

    def checked() -> Iterator[TextRow]:
        rows = text_rows(path, form)
        next(rows)
        return full_rows(path, len(names), rows)

    if found is None or (found[1] and found[0].height != sum(1 for _ in checked())):
        return frame_of_rows(checked(), at)
    return found[0]


@contextlib.contextmanager
def _as_utf8(path: Path, form: TextForm) -> Iterator[tuple[Path, bool]]:
    """Yield a file of plain UTF-8 text, and whether a carriage return stands alone in it."""
    with open(path, "rb") as stream:
        start = stream.read(6)
        plain = not start.startswith((*_COMPRESSED, _ZSTD)) and _marked(start) != "utf-16"
        if plain and _is_utf8(form.encoding or "utf-8"):
            stream.seek(0)
            yield path, _alone(iter(lambda: stream.read(_CHUNK), b""))
            return
    with temporary_folder("ope-bench-table") as folder:
        copy = folder / "table.csv"
        with opened_text(path, form) as text, open(copy, "wb") as out:
            while words := text.read(_CHUNK):
                out.write(words.encode())
        with open(copy, "rb") as stream:
            alone = _alone(iter(lambda: stream.read(_CHUNK), b""))
        yield copy, alone


def _too_long(path: Path, what: str, most: int) -> DataFileError:
    return DataFileError(path, f"{what} has more than {most:,} characters; it is no table of text")


def _alone(chunks: Iterator[bytes]) -> bool:
    """Return whether a carriage return is not followed by a line feed."""
    ended = False
    for chunk in chunks:
        if ended and not chunk.startswith(b"\n"):
            return True
        ended = chunk.endswith(b"\r")
        returns = chunk.count(b"\r") - ended
        if returns and returns != chunk.count(b"\r\n"):
            return True
    return ended


def _by_library(
    source: Path,
    header: list[str],
    delimiter: str,
    at: dict[str, int],
    spelled: frozenset[str],
    form: TextForm,
) -> tuple[Any, bool] | None:
    """Return the columns, and whether `csv` must look at the rows; None where refused.

    The first rows say as what the others are read, so that few texts are in memory at once; a
    column in which another value follows is read once more.
    """
    pl = library()
    width, text = len(header), "".join(header)
    ends = text.count("\n") + text.count("\r") - text.count("\r\n")
    spells = {str(k): name in spelled for name, k in at.items()}
    try:
        with guarded(source):
            scan = pl.scan_csv(
                source,
                has_header=False,
                skip_lines=1 + ends,
                separator=delimiter,
                schema={str(k): pl.String for k in range(width)},
                infer_schema=False,
                raise_if_empty=False,
                glob=False,
            )
            first = scan.head(FIRST_ROWS).collect()
            casts, flags = {}, {"last": pl.col(str(width - 1)).is_null()}
            for k, by_spelling in spells.items():
                kind = settle(first[k], form, spelled=by_spelling).dtype
                if form.missing or form.decimal != "." or kind not in (pl.Int64, pl.Float64):
                    continue
                casts[k] = number = pl.col(k).cast(kind, strict=False)
                fine = number.is_not_null() if kind == pl.Int64 else number.abs() < EXACT
                if by_spelling:
                    fine = number.cast(pl.String) == pl.col(k)
                flags[f"odd {k}"] = (pl.col(k) != "") & ~fine.fill_null(False)
            found = scan.select(**{k: pl.col(k) for k in spells} | casts, **flags).collect(
                engine="streaming"
            )
            doubtful = width == 1 or not found.height or found["last"].any()
            again = [k for k in casts if found[f"odd {k}"].any()]
            found = found.drop(flags)
            if again:
                found = found.with_columns(scan.select(again).collect(engine="streaming"))
            frame = pl.DataFrame({name: found.drop_in_place(str(k)) for name, k in at.items()})
            # A quote within a value may have been a mistake of the file.
            doubtful |= any(
                one.str.contains('"', literal=True).any()
                for one in frame.get_columns()
                if one.dtype == pl.String
            )
    except LibraryRefusalError:
        return None
    return frame, doubtful
