"""Files of tables: their formats, recognized by name and first bytes."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from collections import Counter
from collections.abc import Collection, Generator
from pathlib import Path
from typing import Any

from ope_bench.base.errors import UnavailableError
from ope_bench.reader.arff import arff_rows, is_arff, require_values
from ope_bench.reader.delimited import (
    FIRST_LINE,
    TextRow,
    damaged,
    frame_of_rows,
    full_rows,
    opened,
    opened_text,
    read_delimited,
    text_rows,
)
from ope_bench.reader.frames import series_of, typed_table
from ope_bench.reader.library import LibraryRefusalError, guarded, library
from ope_bench.reader.mistakes import (
    Columns,
    DataFileError,
    column_indices,
    wanted_columns,
)
from ope_bench.reader.parquet import require_sizes
from ope_bench.reader.table import Table
from ope_bench.reader.text import TextForm, finite_number, half_character


def read_table(
    path: Path,
    columns: Columns = None,
    *,
    spelled: Collection[str] = (),
    header: bool = True,
    form: TextForm | None = None,
) -> Table:
    """Read the named columns of a file, whose format is recognized by its name and first bytes.

    Parameters
    ----------
    path : Parquet, Arrow, JSON lines, a JSON list of rows, ARFF (KEEL's dialect included), or text
        with a header, separated by commas, semicolons, tabs or bars; texts also compressed
        (``.gz``, ``.zst``, ``.xz``, ``.bz2``).
    columns : those wanted, or a function that chooses among the names; all if None.
    spelled : columns of names: numbers among them keep their spelling, so that 007 is not 7.
    header : whether the first line names the columns; else they are called 1, 2, ...
    form : how values are written.

    Raises
    ------
    UnavailableError : there is no such file.
    DataFileError : it is empty, damaged or wrongly encoded, or a column is missing; the message
        names the place.
    """
    form = form or TextForm()
    if not path.is_file():
        if path.exists():
            raise DataFileError(path, "a folder or a device; expected a file")
        msg = f"{path}: no such file"
        raise UnavailableError(msg)
    kept = frozenset(spelled)
    with damaged(path), open(path, "rb") as stream:
        start = stream.read(6)
    if start[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"%PDF"):
        raise DataFileError(path, "is a file of Excel, Word or PDF, or zipped; save it as CSV")
    if start.startswith(b"FEA1"):
        raise DataFileError(path, "is Feather of version 1; write version 2, or Parquet")
    if start.startswith(b"PAR1") or path.suffix == ".parquet":
        frame = binary_frame(path, "Parquet", library().scan_parquet, columns)
    elif start.startswith(b"\xff\xff\xff\xff"):
        frame = binary_frame(path, "Arrow", _arrow_stream, columns)
    elif start == b"ARROW1":
        frame = binary_frame(path, "Arrow", library().scan_ipc, columns)
    else:
        with opened_text(path, form) as text:
            first = text.readline(FIRST_LINE)
        if (kind := _json_kind(first)) is not None:
            frame, lines = _json(path, kind, columns, form)
            return _table(path, frame, lines, kept, form)
        if is_arff(first) or not header:
            frame = _plain(path, columns, form)
        else:
            frame = read_delimited(path, columns, kept, form)
        return _table(
            path,
            frame,
            lambda row: f"line {_line_of(path, row, header, form):,}",
            kept,
            form,
            untyped=True,
        )
    return _table(path, frame, lambda row: f"row {row + 1:,}", kept, form)


def _table(
    path: Path,
    frame: Any,
    place: Any,
    spelled: frozenset[str],
    form: TextForm,
    *,
    untyped: bool = False,
) -> Table:
    if not frame.height:
        raise DataFileError(path, "has no rows; write one row for each decision")
    with damaged(path), guarded(path):
        return typed_table(path, place, frame, spelled, form, untyped=untyped)


def has_header(path: Path) -> bool:
    """Return whether the first line of a text table is a header.

    It is in an attribute-relation file, and where none of its words is a number or appears in the
    same column of the next thousand rows.
    """
    with contextlib.closing(_rows(path, TextForm(), header=True)) as rows:
        first, *others = (
            [field.strip() for field in fields] for _, fields in itertools.islice(rows, 1001)
        )
    with opened_text(path, TextForm()) as stream:
        if is_arff(stream.readline(FIRST_LINE)):
            return True
    again = any(word == field for row in others for word, field in zip(first, row, strict=False))
    return not again and all(finite_number(word) is None for word in first)


# Text that `csv` reads alone: attribute-relation files, and tables without a header


def _rows(path: Path, form: TextForm, *, header: bool) -> Generator[TextRow, None, None]:
    """Yield the rows of a text table, a header of names or numbers first."""
    with opened_text(path, form) as stream:
        if is_arff(stream.readline(FIRST_LINE)):
            stream.seek(0)
            yield from arff_rows(path, stream)
            return
    if header:
        yield from text_rows(path, form)
        return
    names: list[str] = []
    for line, fields in text_rows(path, form):
        if not names:
            names = [str(k + 1) for k in range(len(fields))]
            yield line, names
        require_values(path, line, names, fields)
        yield line, fields


def _plain(path: Path, columns: Columns, form: TextForm) -> Any:
    with contextlib.closing(_rows(path, form, header=False)) as rows:
        names = [name.strip() for name in next(rows)[1]]
        at = column_indices(path, names, wanted_columns(path, names, columns))
        return frame_of_rows(full_rows(path, len(names), rows), at)


def _line_of(path: Path, row: int, header: bool, form: TextForm) -> int:
    """Return the line of a row, as an editor counts them."""
    with contextlib.closing(_rows(path, form, header=header)) as rows:
        return next(itertools.islice(rows, row + 1, None))[0]


# Parquet and Arrow


BYTES_OF_A_VALUE = 32
"""Memory that a value of a table takes at least while it is read and checked."""


def _require_memory(path: Path, rows: int, columns: int) -> None:
    """Refuse a file that claims more rows than fit in memory; equal rows take no room in it."""
    import psutil

    need, free = rows * columns * BYTES_OF_A_VALUE, psutil.virtual_memory().available
    if need > free:
        room = f"{need >> 20:,} MiB of memory; {free >> 20:,} are free"
        what = f"has {rows:,} rows, which need {room}"
        raise DataFileError(path, what)


def _arrow_stream(path: Path) -> Any:
    return library().read_ipc_stream(path).lazy()


def binary_frame(path: Path, kind: str, scan: Any, columns: Columns = None) -> Any:
    """Return the named columns of a file of typed columns, all if None.

    Raises
    ------
    DataFileError : it is damaged, lacks a column, or has more rows than fit in memory.
    """
    try:
        with guarded(path):
            lazy = scan(path, glob=False) if kind == "Parquet" else scan(path)
            names = lazy.collect_schema().names()
            wanted = wanted_columns(path, names, columns)
            if kind == "Parquet":
                require_sizes(path, wanted)
            _require_memory(path, lazy.select(library().len()).collect().item(), len(wanted))
            return lazy.select(wanted).collect()
    except LibraryRefusalError as exc:
        what = f"is no {kind} file, or damaged: {exc}; write or copy it again"
        raise DataFileError(path, what) from exc


# JSON


def _json_kind(first: str) -> str | None:
    """Return whether a first line begins JSON lines or a JSON list, None if neither."""
    start = first.lstrip("\ufeff \t")[:1]
    if start == "[":
        return "list"
    if start != "{":
        return None
    try:
        return "lines" if isinstance(json.loads(first), dict) else None
    except ValueError:
        # A header may begin with a brace, but names no quoted key.
        return "lines" if first.lstrip("\ufeff \t{").startswith('"') else None


def _json(path: Path, kind: str, columns: Columns, form: TextForm) -> tuple[Any, Any]:
    """Return the columns of JSON, and the function that names the place of a row.

    Of a key that an object has twice Polars takes one, and half of a character for a zero.
    """
    pl = library()
    if kind == "lines" and form.encoding is None:
        try:
            with guarded(path), opened(path, whole=True) as stream:
                data = stream.read()
                frame = pl.read_ndjson(data, infer_schema_length=None)
                lines = pl.read_lines(io.BytesIO(data)).to_series()
                # A number that is an integer in one row and a float in another is exact in Python.
                lossy = any(
                    kind.is_float()
                    and frame[name].abs().max() is not None
                    and frame[name].abs().max() >= 2.0**53
                    for name, kind in frame.schema.items()
                )
            if not lossy and frame.height == (lines.str.strip_chars() != "").sum():
                wanted = wanted_columns(path, list(frame.columns), columns)
                doubtful = lines.str.contains(r'\\u[dD][89a-fA-F]|\\[^"]*"\s*:')
                for name in wanted:
                    doubtful |= lines.str.count_matches(json.dumps(name), literal=True) > 1
                for at in doubtful.arg_true():
                    row = json_object(path, lines[at], _line(at))
                    _require_plain(path, row, wanted, _line, at)
                return frame.select(wanted), _lines_of_json(path, form)
        except LibraryRefusalError:
            pass
    rows, place = _json_rows(path, kind, form)
    names = list(dict.fromkeys(name for row in rows for name in row))
    wanted = wanted_columns(path, names, columns)
    for k, row in enumerate(rows):
        _require_plain(path, row, wanted, place, k)
    found = {name: series_of([row.get(name) for row in rows], name) for name in wanted}
    return pl.DataFrame(found), place


class _Object(dict[str, Any]):
    """An object of JSON, with the keys that it has twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        count = Counter(name for name, _ in pairs) if len(self) < len(pairs) else {}
        self.twice = {name for name in count if count[name] > 1}

    @classmethod
    def strict(cls, pairs: list[tuple[str, Any]]) -> _Object:
        """Refuse a key that is there twice."""
        found = cls(pairs)
        if found.twice:
            msg = f"the key '{min(found.twice)}' is there twice in one object, keep one"
            raise ValueError(msg)
        return found


def _json_rows(path: Path, kind: str, form: TextForm) -> tuple[list[_Object], Any]:
    with opened_text(path, form, whole=True) as stream:
        if kind == "lines":
            rows = [
                json_object(path, line, _line(at))
                for at, line in enumerate(stream)
                if line.strip()
            ]
            return rows, _lines_of_json(path, form)
        found = _parsed(path, stream.read(), "")
    if not (isinstance(found, list) and all(isinstance(row, _Object) for row in found)):
        what = "is no JSON list of rows; write one object for each decision"
        raise DataFileError(path, what)
    return found, lambda row: f"row {row + 1:,}"


def _parsed(path: Path, text: str, where: str, made: Any = _Object) -> Any:
    """Parse JSON; an error is in the line where it begins, or where the text stands."""
    try:
        return json.loads(text, object_pairs_hook=made)
    except RecursionError as exc:
        what = "lists or objects are too deep within one another; leave them out"
        raise DataFileError(path, what, where=where) from exc
    except ValueError as exc:
        where = where or (f"line {exc.lineno:,}" if isinstance(exc, json.JSONDecodeError) else "")
        what = f"is no JSON: {getattr(exc, 'msg', exc)}; write one object for each decision"
        raise DataFileError(path, what, where=where) from exc


def json_object(path: Path, line: str, where: str, *, strict: bool = False) -> _Object:
    """Parse a line of JSON that is an object.

    Parameters
    ----------
    path, line, where : the line, and its place for messages.
    strict : whether a key that any object has twice is refused.
    """
    found = _parsed(path, line, where, _Object.strict if strict else _Object)
    if not isinstance(found, _Object):
        what = f"{line.strip()[:40]} is no JSON object; write one object a line"
        raise DataFileError(path, what, where=where)
    return found


def _require_plain(path: Path, row: _Object, wanted: list[str], place: Any, at: int) -> None:
    """Refuse a wanted key that an object has twice, and half of a character in its value."""
    for name in wanted:
        twice = "the key is there twice in one object; keep one"
        if what := twice if name in row.twice else half_character(row.get(name)):
            raise DataFileError(path, what, where=f"{place(at)}, column '{name}'")


def _line(at: int) -> str:
    return f"line {at + 1:,}"


def _lines_of_json(path: Path, form: TextForm) -> Any:
    def place(row: int) -> str:
        with opened_text(path, form) as stream:
            filled = (at for at, line in enumerate(stream) if line.strip())
            return _line(next(itertools.islice(filled, row, None), row))

    return place
